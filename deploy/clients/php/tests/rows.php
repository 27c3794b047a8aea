<?php

/** Does what it is told, a call a line, and says what came of it: the table of tests that all clients have in common. */

declare(strict_types=1);

namespace Duetime\Tests;

use Duetime\Client;
use Duetime\Deferred;
use Duetime\Exception\DuetimeException;

require __DIR__ . '/../src/autoload.php';

final class Rows
{
    private readonly Client $client;

    public function __construct()
    {
        $authority = getenv('DUETIME_CA_FILE');
        $this->client = new Client(
            getenv('DUETIME_URL'),
            getenv('DUETIME_TOKEN') ?: null,
            timeout: (float) (getenv('DUETIME_TIMEOUT') ?: 30000) / 1000,
            makeKeys: getenv('DUETIME_MAKE_KEYS') !== false,
            curl: $authority ? [CURLOPT_CAINFO => $authority] : [],
        );
    }

    public function run(): void
    {
        while (($line = fgets(STDIN)) !== false) {
            $asked = json_decode($line, true);
            try {
                self::tell($this->{$asked['call']}($asked));
            } catch (DuetimeException $error) {
                self::tell(['error' => self::kindOf($error)]);
            }
        }
    }

    private static function tell(mixed $told): void
    {
        echo json_encode($told), "\n";
    }

    private static function kindOf(DuetimeException $error): string
    {
        return (new \ReflectionClass($error))->getShortName();
    }

    private function create(array $asked): array
    {
        $key = isset($asked['key']) ? ['key' => $asked['key']] : [];
        return ['id' => $this->client->create($asked['topic'], null, ...$key, delay: 'PT1H')->id];
    }

    private function get(array $asked): array
    {
        return ['id' => $this->client->get($asked['id'])['id']];
    }

    private function report(array $asked): array
    {
        return ['outcome' => $this->client->report($asked['id'], 1)];
    }

    private function big(array $asked): array
    {
        $id = $this->client->create($asked['topic'], [2 ** 53 + 1, PHP_INT_MAX, PHP_INT_MIN, '18446744073709551617'], delay: 'PT1H')->id;
        return ['id' => $id, 'digits' => array_map(strval(...), $this->client->get($id)['payload'])];
    }

    /** Runs it in a child: what its answer is read from. */
    private static function forked(\Closure $call): mixed
    {
        [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        if (pcntl_fork() === 0) {
            fwrite($theirs, json_encode($call()) . "\n");
            exit;
        }
        fclose($theirs);
        return $ours;
    }

    private function workers(array $asked): array
    {
        $children = [];
        for ($worker = 0; $worker < $asked['count']; $worker++) {
            $children[] = self::forked(fn (): array => $this->work($asked, $worker));
        }
        $told = array_map(static fn ($child): array => json_decode(fgets($child), true), $children);
        return ['wrong' => array_merge(...array_column($told, 'wrong')), 'made' => array_merge(...array_column($told, 'made'))];
    }

    private function work(array $asked, int $worker): array
    {
        [$wrong, $made] = [[], []];
        for ($n = 0; $n < $asked['calls']; $n++) {
            $id = $this->client->create($asked['topic'], [$worker, $n], delay: 'PT1H')->id;
            $job = $this->client->get($id);
            if ($job['id'] !== $id || $job['payload'] !== [$worker, $n]) {
                $wrong[] = [$id, $job['id']];
            }
            $made[] = $id;
        }
        return ['wrong' => $wrong, 'made' => $made];
    }

    private function fork(array $asked): array
    {
        $deferred = [];
        for ($n = 0; $n < 2; $n++) {
            $deferred[] = $this->client->createLater($asked['topic'], $n, delay: 'PT1H');
        }
        fgets(STDIN);
        $kinds = fn (): array => array_map(static function (Deferred $one): string {
            try {
                return $one->get()->id;
            } catch (DuetimeException $error) {
                return self::kindOf($error);
            }
        }, $deferred);
        self::tell(['child' => json_decode(fgets(self::forked($kinds)), true)]);
        return ['parent' => $kinds()];
    }
}

(new Rows())->run();
