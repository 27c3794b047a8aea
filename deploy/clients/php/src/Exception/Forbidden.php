<?php

declare(strict_types=1);

namespace Duetime\Exception;

/** 403: the token lacks a scope. */
class Forbidden extends Problem
{
}
