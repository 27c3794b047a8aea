<?php

/**
 * A worker that pops: php worker.php TOPIC. The server lets it wait for due jobs; it does one after the other, and asks for more time for those that
 * wait; on SIGTERM it ends what it has begun, reports it, and takes nothing more. Run as many as you want jobs done at a time.
 */

declare(strict_types=1);

require __DIR__ . '/../src/autoload.php'; // or Composer's
require __DIR__ . '/orders.php';

use Duetime\Client;
use Duetime\Exception\DuetimeException;

const JOBS = 20;
const TTR_MS = 3000; // a worker that dies costs its jobs so much time

$authority = array_filter([CURLOPT_CAINFO => getenv('DUETIME_CA_FILE')]);
$client = new Client(getenv('DUETIME_URL'), getenv('DUETIME_TOKEN') ?: null, curl: $authority);
$effects = new Orders\Effects();
$ending = false;
pcntl_async_signals(true);
foreach ([SIGTERM, SIGINT] as $signal) {
    pcntl_signal($signal, static function () use (&$ending): void {
        $ending = true;
    });
}

while (!$ending) {
    try {
        $jobs = $client->pop($argv[1], JOBS, 5_000, TTR_MS);
        $extended = microtime(true);
        foreach ($jobs as $i => $job) {
            if (microtime(true) > $extended + TTR_MS / 3000) {
                foreach (array_slice($jobs, $i) as $waiting) {
                    $client->reportLater($waiting['id'], $waiting['attempt'], 'extended');
                }
                $client->flush();
                $extended = microtime(true);
            }
            $report = Orders\attend($effects, $job['id'], $job['attempt'], $job['payload']);
            if ($report !== null) {
                $client->reportLater($job['id'], $job['attempt'], $report['status'], ...array_slice($report, 3));
            }
        }
        $client->flush(); // a report that fails leaves its attempt to the deadline
    } catch (DuetimeException $error) {
        fwrite(STDERR, "nothing popped: {$error->getMessage()}\n");
        usleep(1_000_000);
    }
}
