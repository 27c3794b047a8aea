<?php

declare(strict_types=1);

namespace Duetime\Exception;

/** 401: no token, or an unknown one. */
class Unauthorized extends Problem
{
}
