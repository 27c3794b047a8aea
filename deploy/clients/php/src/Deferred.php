<?php

declare(strict_types=1);

namespace Duetime;

use Duetime\Exception\DuetimeException;

/**
 * An answer to come. It is there after flush(), or when get() asks for it.
 *
 * @template T
 */
final class Deferred
{
    private mixed $value = null;
    private ?DuetimeException $error = null;
    private bool $settled = false;

    /** @param \Closure(): void $flush */
    public function __construct(private readonly \Closure $flush)
    {
    }

    /** @return T */
    public function get(): mixed
    {
        if (!$this->settled) {
            ($this->flush)();
        }
        return $this->error === null ? $this->value : throw $this->error;
    }

    /** What get() would throw. */
    public function error(): ?DuetimeException
    {
        return $this->error;
    }

    public function isSettled(): bool
    {
        return $this->settled;
    }

    /** @internal */
    public function settle(mixed $value, ?DuetimeException $error = null): void
    {
        [$this->value, $this->error, $this->settled] = [$value, $error, true];
    }
}
