<?php

declare(strict_types=1);

namespace Duetime\Exception;

/** Whatever a call can end with, other than its answer. */
abstract class DuetimeException extends \RuntimeException
{
}
