<?php

declare(strict_types=1);

namespace Duetime\Exception;

/** 400, 413, 415, 422: the request itself is wrong. */
class Invalid extends Problem
{
}
