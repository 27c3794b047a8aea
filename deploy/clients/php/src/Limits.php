<?php

declare(strict_types=1);

namespace Duetime;

/** Bounds of one request that carries many lines; a call that reaches one sends what waits before it returns. */
final class Limits
{
    public function __construct(public readonly int $batchLines = 1000, public readonly int $batchBytes = 1 << 20)
    {
    }
}
