<?php

declare(strict_types=1);

namespace Duetime\Exception;

/** The job was dispatched, or is final: `state` and `attempt` are in the members. */
class TooLate extends Conflict
{
}
