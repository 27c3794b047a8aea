<?php

declare(strict_types=1);

namespace Duetime;

/** @internal The server refused for the moment, or gave no whole answer. `doubted`: it may have been carried out. */
final class NoAnswer extends \Exception
{
    public function __construct(string $why, public readonly bool $doubted, public readonly ?float $retryAfter = null)
    {
        parent::__construct($why);
    }
}
