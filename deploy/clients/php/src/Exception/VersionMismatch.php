<?php

declare(strict_types=1);

namespace Duetime\Exception;

/** 412: the job has changed since the version that was named. */
class VersionMismatch extends Problem
{
}
