<?php

/** The client against a real API, whose address is in DUETIME_URL: phpunit tests */

declare(strict_types=1);

namespace Duetime\Tests;

require_once __DIR__ . '/../src/autoload.php';

use Duetime\Client;
use Duetime\Created;
use Duetime\Exception\Invalid;
use Duetime\Exception\KeyConflict;
use Duetime\Exception\NotFound;
use Duetime\Exception\OutcomeUnknown;
use Duetime\Exception\Problem;
use Duetime\Exception\TooLate;
use Duetime\Exception\Unavailable;
use Duetime\Exception\VersionMismatch;
use Duetime\Limits;
use PHPUnit\Framework\TestCase;

final class ClientTest extends TestCase
{
    private string $topic;
    private string $url;
    /** @var array<int, resource> */
    private array $pipes = [];
    /** @var resource */
    private $between;

    protected function setUp(): void
    {
        $this->topic = 'php-' . bin2hex(random_bytes(5));
        $api = parse_url(getenv('DUETIME_URL'));
        $command = [PHP_BINARY, __DIR__ . '/between.php', "{$api['host']}:{$api['port']}"];
        $this->between = proc_open($command, [['pipe', 'r'], ['pipe', 'w']], $this->pipes);
        $this->url = 'http://127.0.0.1:' . trim(fgets($this->pipes[1]));
    }

    protected function tearDown(): void
    {
        array_map('fclose', $this->pipes);
        proc_close($this->between);
    }

    private function between(mixed ...$command): mixed
    {
        fwrite($this->pipes[0], json_encode($command) . "\n");
        return json_decode(fgets($this->pipes[1]), true);
    }

    /** @return list<string> the bodies of the requests so far */
    private function asked(): array
    {
        return $this->between(asked: true);
    }

    private function client(mixed ...$options): Client
    {
        return new Client($this->url, getenv('DUETIME_TOKEN') ?: null, ...$options);
    }

    /** @return iterable<array<string, mixed>> */
    private function jobs(int $count): iterable
    {
        for ($n = 0; $n < $count; $n++) {
            yield ['topic' => $this->topic, 'delay' => 'PT1H', 'payload' => ['n' => $n]];
        }
    }

    public function testManyAreMadeInBoundedBatchesEachWithItsOwnAnswer(): void
    {
        $client = $this->client(limits: new Limits(batchLines: 100));
        $made = iterator_to_array($client->createMany($this->jobs(250)), false);
        self::assertCount(250, array_unique(array_map(static fn (Created $one): string => $one->id, $made)));
        $lines = array_map(static fn (string $body): int => substr_count($body, "\n"), $this->asked());
        self::assertSame([100, 100, 50], $lines);
        self::assertSame(['n' => 177], $client->get($made[177]->id)['payload']);
    }

    public function testABatchIsBoundedInBytes(): void
    {
        $this->between(tell: array_fill(0, 20, [200, null, null]));
        $client = $this->client(limits: new Limits(batchBytes: 10_000));
        $deferred = array_map(fn (): mixed => $client->createLater($this->topic, str_repeat('x', 3000)), range(1, 10));
        $client->flush();
        self::assertSame(['0', '1', '2', '0'], array_map(static fn ($one): string => $one->get()->id, array_slice($deferred, 0, 4)));
        self::assertSame([3, 3, 3, 1], array_map(static fn (string $body): int => substr_count($body, "\n"), $this->asked()));
    }

    public function testWhatIsDeferredLeavesTogetherAndABadOneFailsAlone(): void
    {
        $client = $this->client();
        $deferred = array_map(fn (string $delay): mixed => $client->createLater($this->topic, delay: $delay), ['PT1H', 'soon', 'PT2H']);
        self::assertSame([], $this->asked());
        self::assertNotSame($deferred[0]->get()->id, $deferred[2]->get()->id);
        self::assertCount(1, $this->asked());
        $this->expectExceptionObject($deferred[1]->error());
        $this->expectException(Invalid::class);
        $this->expectExceptionMessage('/delay');
        $deferred[1]->get();
    }

    public function testWithAKeyALostAnswerIsAskedForAgain(): void
    {
        $client = $this->client();
        $client->create($this->topic, delay: 'PT1H');
        $this->between(cut: 2);
        $made = $client->create($this->topic, 1, key: 'k', delay: 'PT1H');
        self::assertTrue($made->existed);
        self::assertSame($made->id, $client->getByKey($this->topic, 'k')['id']);
        try {
            $client->create($this->topic, 2, key: 'k', delay: 'PT1H');
            self::fail('another job has the key');
        } catch (KeyConflict $conflict) {
            self::assertSame($made->id, $conflict->members['id']);
        }
    }

    public function testWithoutAKeyALostAnswerIsAnUnknownOutcomeAndNothingIsSentTwice(): void
    {
        $client = $this->client();
        $client->create($this->topic, 0, delay: 'PT1H'); // the connection is a kept one
        $this->between(cut: 1);
        try {
            $client->create($this->topic, 1, delay: 'PT1H');
            self::fail('nobody knows');
        } catch (OutcomeUnknown) {
            self::assertCount(2, $this->asked());
        }
        $this->between(cut: 1);
        self::assertTrue($this->client(makeKeys: true)->create($this->topic, 1, delay: 'PT1H')->existed);
    }

    public function testAnswersThatAreLostUntilTheDeadlineAreAnUnknownOutcome(): void
    {
        $this->between(cut: 1_000_000);
        $this->expectException(OutcomeUnknown::class);
        $this->client(timeout: 3)->create($this->topic, 1, key: 'k', delay: 'PT1H');
    }

    public function testAConnectionThatEndedWhileIdleIsNoUnknownOutcome(): void
    {
        $client = $this->client();
        for ($i = 0; $i < 3; $i++) {
            self::assertFalse($client->create($this->topic, $i, delay: 'PT1H')->existed);
            $this->between(end: true);
        }
    }

    public function testRetryAfterIsObeyed(): void
    {
        $no = '{"type":"/problems/unavailable","title":"not now"}';
        $line = '{"type":"/problems/quota-exceeded","title":"slowly","status":429,"retry_after":"PT0.5S"}';
        $this->between(tell: [[503, '1', $no], [429, '1', $no], [200, null, "$line\n"], [200, null, null]]);
        $began = microtime(true);
        self::assertSame('0', $this->client()->create($this->topic)->id);
        self::assertGreaterThanOrEqual(2.5, microtime(true) - $began);
    }

    public function testAServerThatAsksForNoPauseIsNotAskedAllTheTime(): void
    {
        $this->between(tell: array_fill(0, 1000, [503, '0', '{"type":"/problems/unavailable","title":"not now"}']));
        $client = $this->client(timeout: 1.0);
        foreach ([fn () => $client->create('t'), fn () => $client->get('1')] as $call) {
            try {
                $call();
                self::fail('it is not now');
            } catch (Unavailable) {
                self::assertLessThan(30, count($this->asked()));
            }
        }
    }

    public function testAnAnswerThatAProxyHasLostIsAnUnknownOutcome(): void
    {
        $page = '<html>';
        $lost = [504, null, $page];
        $this->between(tell: [[502, null, $page], $lost, [200, null, null], [502, null, $page], [200, null, "$page\n"], $lost]);
        $client = $this->client();
        self::assertSame('0', $client->create('t', key: 'k')->id);
        self::assertCount(3, $this->asked());
        foreach ([fn () => $client->create('t'), fn () => $client->create('t'), fn () => $client->pop('t', wait: 0)] as $call) {
            try {
                $call();
                self::fail('nobody knows');
            } catch (OutcomeUnknown $unknown) {
                self::assertNotSame('', $unknown->getMessage());
            }
        }
    }

    public function testARedirectIsARefusal(): void
    {
        $this->between(tell: [[301, null, ''], [301, null, '']]);
        foreach ([fn () => $this->client()->create('t'), fn () => $this->client()->get('1')] as $call) {
            try {
                $call();
                self::fail('it leads elsewhere');
            } catch (Problem $problem) {
                self::assertSame(301, $problem->status);
            }
        }
    }

    public function testNobodyThereIsUnavailableAtTheDeadline(): void
    {
        $taken = socket_create(AF_INET, SOCK_STREAM, SOL_TCP);
        socket_bind($taken, '127.0.0.1'); // nobody listens
        socket_getsockname($taken, $host, $port);
        $client = new Client("http://$host:$port", timeout: 2);
        foreach ([fn () => $client->create('t'), fn () => $client->get('1')] as $call) {
            try {
                $call();
                self::fail('nobody is there');
            } catch (Unavailable $unavailable) {
                self::assertNotSame('', $unavailable->getMessage());
            }
        }
    }

    public function testABatchThatEndedEarlyGoesOn(): void
    {
        $end = '{"status":413,"type":"/problems/too-large","title":"no job was created from here on"}';
        $this->between(tell: [[200, null, "{\"status\":201,\"id\":\"7\"}\n$end\n"], [200, null, null]]);
        $client = $this->client();
        $made = iterator_to_array($client->createMany($this->jobs(3)), false);
        self::assertSame(['7', '0', '1'], array_map(static fn (Created $one): string => $one->id, $made));
    }

    public function testAJobIsPoppedAndReported(): void
    {
        $client = $this->client();
        $client->putTopic($this->topic, ['delivery' => 'pull']);
        $id = $client->create($this->topic, ['a' => 'ü/'], delay: 0, retry: [1])->id;
        [$job] = $client->pop($this->topic, 5, ttr: 'PT1M');
        self::assertSame([$id, 1, ['a' => 'ü/']], [$job['id'], $job['attempt'], $job['payload']]);
        $error = ['code' => 'busy', 'message' => 'later'];
        self::assertSame('applied', $client->report($id, 1, 'failed', error: $error, retry_after: 1));
        self::assertSame('duplicate', $client->report($id, 1, 'failed', error: $error));
        self::assertSame(2, $client->pop([$this->topic])[0]['attempt']);
        self::assertSame('applied', $client->report($id, 2));
        self::assertSame(['failed', 'succeeded'], array_column($client->attempts($id), 'status'));
        try {
            $client->cancel($id);
            self::fail('it is done');
        } catch (TooLate $late) {
            self::assertSame(['succeeded', 2], [$late->members['state'], $late->members['attempt']]);
        }
    }

    public function testAScheduledJobIsChangedAndCancelled(): void
    {
        $client = $this->client();
        $id = $client->create($this->topic, run_at: new \DateTimeImmutable('+1 hour'))->id;
        $changed = $client->change($id, ['payload' => [1, 2], 'delay' => 'P1D'], ifMatch: 1);
        self::assertSame([[1, 2], 2], [$changed['payload'], $changed['version']]);
        try {
            $client->change($id, ['payload' => 3], ifMatch: 1);
            self::fail('it has changed');
        } catch (VersionMismatch) {
            self::assertSame('cancelled', $client->cancel($id)['state']);
        }
        $this->expectException(NotFound::class);
        $client->getByKey($this->topic, 'none');
    }
}
