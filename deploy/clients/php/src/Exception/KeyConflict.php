<?php

declare(strict_types=1);

namespace Duetime\Exception;

/** An unlike request made the job that has this key: its id is in the members. */
class KeyConflict extends Conflict
{
}
