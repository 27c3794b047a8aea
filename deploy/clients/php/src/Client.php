<?php

declare(strict_types=1);

namespace Duetime;

use Duetime\Exception\DuetimeException;
use Duetime\Exception\OutcomeUnknown;
use Duetime\Exception\Problem;
use Duetime\Exception\Unavailable;

/**
 * A client of duetime. PHP does one thing at a time, so nothing waits beside a call: creates leave together when they are asked for with
 * createMany(), or with createLater() and flush(). After a fork each process has connections and keys of its own. Jobs are named by their ids.
 * Durations are "PT30M", "15s" or milliseconds; times are RFC 3339 or a DateTimeInterface.
 */
final class Client
{
    private readonly Transport $transport;
    private readonly Batcher $creates;
    private readonly Batcher $reports;
    private int $made = 0;
    private ?int $keysOf = null; // the process that makes them
    private string $keys = '';

    /**
     * @param string $url https://HOST, http://HOST, or unix:/PATH of the API's socket
     * @param float $timeout seconds for each call
     * @param bool $makeKeys creates without a key get one, so that each may be sent again
     * @param array<int, mixed> $curl further options of ext-curl: CURLOPT_CAINFO for an authority of your own, CURLOPT_SSLCERT, CURLOPT_SSLKEY …
     */
    public function __construct(
        string $url,
        ?string $token = null,
        private readonly float $timeout = 30.0,
        Limits $limits = new Limits(),
        private readonly bool $makeKeys = false,
        array $curl = [],
    ) {
        $this->transport = new Transport(rtrim($url, '/'), $token, $curl);
        $this->creates = new Batcher($this->transport, '/v1/jobs:batch', self::created(...), $limits, $timeout);
        $this->reports = new Batcher($this->transport, '/v1/results', static fn (array $told): string => $told['outcome'], $limits, $timeout);
    }

    /**
     * Makes a job and returns when it is durable. Members, by name: key, delay or run_at, retry, ack_timeout, partition_key, headers, callback_url.
     * With a key it is sent again when its outcome is unknown.
     *
     * @throws DuetimeException
     */
    public function create(string $topic, mixed $payload = null, mixed ...$members): Created
    {
        return $this->createLater($topic, $payload, ...$members)->get();
    }

    /**
     * Leaves with the next flush(), or as soon as a batch is full.
     *
     * @return Deferred<Created>
     */
    public function createLater(string $topic, mixed $payload = null, mixed ...$members): Deferred
    {
        return $this->later(['topic' => $topic, 'payload' => $payload] + $members);
    }

    /**
     * Makes jobs in batches of bounded size, in constant memory: for each, in order, what was created, or why it was not.
     *
     * @param iterable<array<string, mixed>> $jobs each with its topic
     * @return \Generator<int, Created|DuetimeException>
     */
    public function createMany(iterable $jobs): \Generator
    {
        $made = [];
        foreach ($jobs as $job) {
            $made[] = $this->later($job);
            while ($made !== [] && $made[0]->isSettled()) {
                $first = array_shift($made);
                yield $first->error() ?? $first->get();
            }
        }
        $this->flush();
        foreach ($made as $one) {
            yield $one->error() ?? $one->get();
        }
    }

    /** Sends what waits. The answers are in their Deferred. */
    public function flush(): void
    {
        $this->creates->flush();
        $this->reports->flush();
    }

    /**
     * Reports the result of an attempt: succeeded, failed, snoozed, gave_up, extended. Members, by name: error (code, message), retry_after.
     * The outcome: "applied", "duplicate" or "stale".
     */
    public function report(string $jobId, int $attempt, string $status = 'succeeded', mixed ...$members): string
    {
        return $this->reportLater($jobId, $attempt, $status, ...$members)->get();
    }

    /** @return Deferred<string> */
    public function reportLater(string $jobId, int $attempt, string $status = 'succeeded', mixed ...$members): Deferred
    {
        $report = ['job_id' => $jobId, 'attempt' => $attempt, 'status' => $status] + $members;
        return $this->reports->add(self::encode($report) . "\n", true);
    }

    /** @return array<string, mixed> */
    public function get(string $id): array
    {
        return $this->ask('GET', '/v1/jobs/' . rawurlencode($id));
    }

    /** @return array<string, mixed> the latest job of the key */
    public function getByKey(string $topic, string $key): array
    {
        return $this->ask('GET', '/v1/topics/' . rawurlencode($topic) . '/jobs/' . rawurlencode($key));
    }

    /** @return list<array<string, mixed>> */
    public function attempts(string $id): array
    {
        return $this->ask('GET', '/v1/jobs/' . rawurlencode($id) . '/attempts')['attempts'];
    }

    /**
     * Replaces members of a job that is scheduled; null: the topic's default. With a version it is not sent again when its outcome is unknown: the
     * version may be its own by then.
     *
     * @param array<string, mixed> $members
     * @param ?int $ifMatch only if this is the job's version
     * @return array<string, mixed>
     */
    public function change(string $id, array $members, ?int $ifMatch = null): array
    {
        $headers = $ifMatch === null ? [] : ['If-Match' => "\"$ifMatch\""];
        return $this->ask('PATCH', '/v1/jobs/' . rawurlencode($id), self::encode($members), $ifMatch === null, $headers);
    }

    /**
     * @param bool $retries a job that is dispatched gets no further attempt
     * @return array<string, mixed>
     */
    public function cancel(string $id, bool $retries = false): array
    {
        return $this->ask('POST', '/v1/jobs/' . rawurlencode($id) . '/cancel' . ($retries ? '?retries=true' : ''));
    }

    /**
     * Claims due jobs of pull topics. A pop whose answer is lost costs those attempts: they come again after their time.
     *
     * @param string|list<string> $topics
     * @param int $wait milliseconds for which the server waits until there is one, at most a minute
     * @param int|string|null $ttr time for each attempt
     * @return list<array<string, mixed>>
     */
    public function pop(string|array $topics, int $max = 1, int $wait = 20_000, int|string|null $ttr = null): array
    {
        $body = ['topics' => (array) $topics, 'max' => $max, 'wait' => $wait] + ($ttr === null ? [] : ['ttr' => $ttr]);
        return $this->ask('POST', '/v1/pop', self::encode($body), false, [], $wait / 1000)['jobs'];
    }

    /**
     * Sets a topic: delivery, retry, ack_timeout, rate_limit …; what is left out takes its default.
     *
     * @param array<string, mixed> $settings
     * @return array<string, mixed>
     */
    public function putTopic(string $topic, array $settings): array
    {
        return $this->ask('PUT', '/v1/topics/' . rawurlencode($topic), self::encode($settings));
    }

    /**
     * @param array<string, mixed> $job
     * @return Deferred<Created>
     */
    private function later(array $job): Deferred
    {
        if ($this->makeKeys && !isset($job['key'])) {
            if ($this->keysOf !== getmypid()) { // keys of one process ascend, which is what the server's index of keys likes best
                $this->keys = sprintf('%013d-%s-', (int) (microtime(true) * 1000), bin2hex(random_bytes(4)));
                $this->keysOf = getmypid();
            }
            $job['key'] = $this->keys . sprintf('%09d', $this->made++);
        }
        return $this->creates->add(self::encode($job) . "\n", isset($job['key']));
    }

    /**
     * The decoded answer. Refused for the moment: again, until the deadline. Outcome unknown: again if that does no harm.
     *
     * @param array<string, string> $headers
     * @return array<string, mixed>
     */
    private function ask(
        string $method,
        string $path,
        string $body = '',
        bool $repeatable = true,
        array $headers = [],
        float $longer = 0.0,
    ): array {
        $deadline = $this->deadline() + $longer;
        $headers += $body === '' ? [] : ['Content-Type' => 'application/json'];
        for ($tries = 1, $inDoubt = false;; $tries++) {
            try {
                return $this->once($method, $path, $body, $deadline, $headers);
            } catch (NoAnswer $none) {
                $inDoubt = $inDoubt || $none->doubted;
                $pause = Transport::pause($tries, $none->retryAfter);
                if (($none->doubted && !$repeatable) || Transport::now() + $pause >= $deadline) {
                    throw $inDoubt ? new OutcomeUnknown($none->getMessage()) : new Unavailable($none->getMessage());
                }
                usleep((int) ($pause * 1e6));
            }
        }
    }

    /**
     * @param array<string, string> $headers
     * @return array<string, mixed>
     */
    private function once(string $method, string $path, string $body, float $deadline, array $headers): array
    {
        $answer = $this->transport->ask($method, $path, $body, $deadline - Transport::now(), $headers);
        if ($answer->status < 300) {
            return (array) json_decode($answer->body, true, 512, JSON_THROW_ON_ERROR | JSON_BIGINT_AS_STRING);
        }
        $problem = Problem::of($answer->problem());
        if ($problem->isDoubted() || Answer::refusedForNow($answer->status)) {
            throw new NoAnswer($problem->getMessage(), $problem->isDoubted(), $answer->retryAfter);
        }
        throw $problem;
    }

    private function deadline(): float
    {
        return Transport::now() + $this->timeout;
    }

    /** @param array<string, mixed> $told */
    private static function created(array $told): Created
    {
        return new Created($told['id'], $told['status'] === 200);
    }

    /** @param array<string, mixed> $members */
    private static function encode(array $members): string
    {
        foreach ($members as $name => $value) {
            if ($value instanceof \DateTimeInterface && $name !== 'payload') {
                $members[$name] = $value->format('Y-m-d\TH:i:s.vP');
            }
        }
        return json_encode((object) $members, JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_PRESERVE_ZERO_FRACTION | JSON_THROW_ON_ERROR);
    }
}
