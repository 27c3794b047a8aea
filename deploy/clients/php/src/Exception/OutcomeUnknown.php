<?php

declare(strict_types=1);

namespace Duetime\Exception;

/** It may have happened: ask again with the key, or by the id where the server gave one. */
class OutcomeUnknown extends DuetimeException
{
    public function __construct(string $message, public readonly ?string $id = null)
    {
        parent::__construct($message);
    }
}
