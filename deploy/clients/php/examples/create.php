<?php

/**
 * Makes jobs: php create.php TOPIC FIRST COUNT. They leave in a few requests, and each has its own answer. The key makes it safe to ask again: the
 * second run gives the same ids. Some are made to fail a time or two, some are impossible.
 */

declare(strict_types=1);

require __DIR__ . '/../src/autoload.php'; // or Composer's

use Duetime\Client;
use Duetime\Created;

/** @return iterable<array<string, mixed>> */
function orders(string $topic, int $first, int $count): iterable
{
    for ($n = $first; $n < $first + $count; $n++) {
        $payload = ['n' => $n, 'impossible' => $n % 100 === 9, 'fails' => $n % 50 === 7 ? 2 : (int) ($n % 10 === 3)];
        yield ['topic' => $topic, 'key' => "order-$n", 'delay' => $n % 100 * 10, 'payload' => $payload, 'retry' => array_fill(0, 5, '1s')];
    }
}

$authority = array_filter([CURLOPT_CAINFO => getenv('DUETIME_CA_FILE')]);
$client = new Client(getenv('DUETIME_URL'), getenv('DUETIME_TOKEN') ?: null, curl: $authority);
foreach ($client->createMany(orders($argv[1], (int) $argv[2], (int) $argv[3])) as $made) {
    echo $made instanceof Created ? $made->id : throw $made, "\n";
}
