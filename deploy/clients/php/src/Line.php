<?php

declare(strict_types=1);

namespace Duetime;

use Duetime\Exception\DuetimeException;

/** @internal One line of a batch and what its caller awaits. `inDoubt`: a request with it may have been carried out. */
final class Line
{
    public bool $inDoubt = false;
    public string $why = '';

    /** @param Deferred<mixed> $deferred */
    public function __construct(
        public readonly string $data,
        public readonly bool $repeatable,
        public readonly Deferred $deferred,
    ) {
    }

    /** True: it is settled. */
    public function fail(DuetimeException $error): bool
    {
        $this->deferred->settle(null, $error);
        return true;
    }
}
