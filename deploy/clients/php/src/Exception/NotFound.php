<?php

declare(strict_types=1);

namespace Duetime\Exception;

/** 404: no such job or topic, or none that the token reaches. */
class NotFound extends Problem
{
}
