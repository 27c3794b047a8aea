<?php

/**
 * Stands between a client and the API, one connection at a time: php between.php HOST:PORT prints its own port. A line on its input is a command as
 * JSON, answered by a line: {"cut":n}: n answers get lost; {"tell":[[status, retry-after, body]…]}: these go out instead of the server's, body null:
 * a result for each line; {"end":true}: the connection ends; {"asked":true}: the bodies that came.
 */

declare(strict_types=1);

namespace Duetime\Tests;

/** @return array{string, string} head and body of the next message */
function message($stream): array
{
    [$head, $length, $chunked] = ['', 0, false];
    while (($line = fgets($stream)) !== false) {
        $head .= $line;
        $length = preg_match('/^content-length:\s*(\d+)/i', $line, $found) ? (int) $found[1] : $length;
        $chunked = $chunked || preg_match('/^transfer-encoding:.*chunked/i', $line);
        if ($line === "\r\n") {
            return [$head, $chunked ? chunks($stream) : ($length > 0 ? (string) stream_get_contents($stream, $length) : '')];
        }
    }
    return ['', ''];
}

function chunks($stream): string
{
    for ($body = '', $size = 1; $size > 0;) {
        $line = (string) fgets($stream);
        $size = (int) hexdec(trim($line));
        $body .= $line . stream_get_contents($stream, $size + 2);
    }
    return $body;
}

final class Between
{
    private int $cut = 0;
    /** @var list<array{int, ?string, ?string}> */
    private array $tell = [];
    /** @var list<string> */
    private array $asked = [];
    private mixed $client = null;
    private mixed $server = null;

    public function __construct(private readonly string $to, private readonly mixed $listener)
    {
    }

    public function run(): void
    {
        while (true) {
            $ready = array_filter([STDIN, $this->listener, $this->client]);
            [$none, $other] = [null, null];
            stream_select($ready, $none, $other, null);
            if (in_array(STDIN, $ready, true)) {
                $line = fgets(STDIN);
                if ($line === false) {
                    return;
                }
                echo json_encode($this->obey(json_decode($line, true))), "\n";
            } elseif (in_array($this->client, $ready, true)) {
                $this->passOn();
            } else {
                $this->end();
                $this->client = stream_socket_accept($this->listener);
                $this->server = stream_socket_client("tcp://$this->to");
            }
        }
    }

    /** @param array<string, mixed> $command */
    private function obey(array $command): mixed
    {
        $this->cut = $command['cut'] ?? $this->cut;
        $this->tell = $command['tell'] ?? $this->tell;
        if (isset($command['end'])) {
            $this->end();
        }
        return isset($command['asked']) ? $this->asked : 'done';
    }

    private function end(): void
    {
        foreach (array_filter([$this->client, $this->server]) as $stream) {
            fclose($stream);
        }
        [$this->client, $this->server] = [null, null];
    }

    private function passOn(): void
    {
        [$head, $body] = message($this->client);
        if ($head === '') {
            $this->end();
            return;
        }
        $this->asked[] = $body;
        $answer = $this->tell === [] ? $this->served($head, $body) : self::told(array_shift($this->tell), $body);
        if ($this->cut > 0) {
            $this->cut--;
            $this->end();
        } else {
            fwrite($this->client, $answer);
        }
    }

    private function served(string $head, string $body): string
    {
        fwrite($this->server, $head . $body);
        return implode('', message($this->server));
    }

    /** @param array{int, ?string, ?string} $saying */
    private static function told(array $saying, string $asked): string
    {
        [$status, $retryAfter, $body] = $saying;
        for ($i = 0; $saying[2] === null && $i < substr_count($asked, "\n"); $i++) {
            $body .= "{\"status\":201,\"id\":\"$i\"}\n";
        }
        $more = $retryAfter === null ? '' : "Retry-After: $retryAfter\r\n";
        return "HTTP/1.1 $status X\r\n{$more}Content-Length: " . strlen((string) $body) . "\r\n\r\n$body";
    }
}

$listener = stream_socket_server('tcp://127.0.0.1:0');
echo parse_url('tcp://' . stream_socket_get_name($listener, false), PHP_URL_PORT), "\n";
(new Between($argv[1], $listener))->run();
