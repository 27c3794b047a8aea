<?php

declare(strict_types=1);

namespace Duetime;

/** `existed`: an equal request had made the job before. */
final class Created
{
    public function __construct(public readonly string $id, public readonly bool $existed)
    {
    }
}
