<?php

declare(strict_types=1);

namespace Duetime\Exception;

/** Nothing happened: the server refused for the moment, or could not be reached, until the deadline. */
class Unavailable extends DuetimeException
{
}
