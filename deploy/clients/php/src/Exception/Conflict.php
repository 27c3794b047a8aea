<?php

declare(strict_types=1);

namespace Duetime\Exception;

/** 409. */
class Conflict extends Problem
{
}
