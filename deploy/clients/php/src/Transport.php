<?php

declare(strict_types=1);

namespace Duetime;

/**
 * @internal One kept connection, of one process: a forked one makes its own. It knows which failures leave the outcome open, and nothing of jobs.
 */
final class Transport
{
    private const LONGEST_PAUSE = 2.0;
    private const KEPT_SECONDS = 50; // the server closes a connection that was silent for 75

    /** @var list<\CurlHandle> of parent processes; to close one would end its connection by TLS */
    private static array $inherited = [];

    private \CurlHandle $curl;
    private int $process;
    private readonly string $url;
    /** @var array<int, mixed> */
    private readonly array $curlOptions;

    /** @param array<int, mixed> $curlOptions */
    public function __construct(string $url, private readonly ?string $token, array $curlOptions)
    {
        $socket = str_starts_with($url, 'unix:') ? substr($url, 5) : null;
        $this->url = $socket === null ? $url : 'http://localhost';
        $this->curlOptions = $curlOptions + ($socket === null ? [] : [CURLOPT_UNIX_SOCKET_PATH => $socket]);
        $this->curl = curl_init();
        $this->process = getmypid();
    }

    /**
     * One request.
     *
     * @param array<string, string> $headers
     * @throws NoAnswer
     */
    public function ask(string $method, string $path, string $body, float $seconds, array $headers): Answer
    {
        $retryAfter = null;
        if ($this->process !== getmypid()) {
            self::$inherited[] = $this->curl;
            $this->curl = curl_init();
            $this->process = getmypid();
        }
        curl_reset($this->curl);
        curl_setopt_array($this->curl, $this->options($method, $path, $seconds, $headers, $retryAfter));
        if ($body !== '') {
            $this->carry($body);
        }
        $answer = curl_exec($this->curl);
        if (!is_string($answer)) {
            $sent = curl_getinfo($this->curl, CURLINFO_REQUEST_SIZE) > 0;
            throw new NoAnswer(curl_error($this->curl), $sent);
        }
        return new Answer(curl_getinfo($this->curl, CURLINFO_RESPONSE_CODE), $retryAfter, $answer);
    }

    /** Seconds before the next try: more from time to time, not the same for all callers, and what the server asks for at least. */
    public static function pause(int $tries, ?float $asked): float
    {
        return max($asked ?? 0.0, min(self::LONGEST_PAUSE, 0.05 * 2 ** min($tries, 10)) * random_int(50, 100) / 100);
    }

    public static function now(): float
    {
        return hrtime(true) / 1e9;
    }

    /**
     * @param array<string, string> $headers
     * @return array<int, mixed>
     */
    private function options(string $method, string $path, float $seconds, array $headers, ?float &$retryAfter): array
    {
        $headers += ['Expect' => '', 'User-Agent' => 'duetime-php/0.1.0'] + ($this->token ? ['Authorization' => "Bearer $this->token"] : []);
        return $this->curlOptions + [
            CURLOPT_URL => $this->url . $path,
            CURLOPT_CUSTOMREQUEST => $method,
            CURLOPT_HTTPHEADER => array_map(static fn ($name, $value): string => "$name: $value", array_keys($headers), $headers),
            CURLOPT_TIMEOUT_MS => max(1, (int) ($seconds * 1000)),
            CURLOPT_NOSIGNAL => true,
            CURLOPT_RETURNTRANSFER => true,
            CURLOPT_MAXAGE_CONN => self::KEPT_SECONDS,
            CURLOPT_PROTOCOLS => CURLPROTO_HTTP | CURLPROTO_HTTPS,
            CURLOPT_HEADERFUNCTION => static function ($curl, string $line) use (&$retryAfter): int {
                if (preg_match('/^retry-after:\s*(\d+)\s*$/i', $line, $found)) {
                    $retryAfter = (float) $found[1]; // a date is not understood, and left to our own pauses
                }
                return strlen($line);
            },
        ];
    }

    /**
     * Sends the body by a function: libcurl can then not begin it anew by itself. It would, on a kept connection that ends without an answer, and
     * a job without a key would be made twice.
     */
    private function carry(string $body): void
    {
        $at = 0;
        curl_setopt_array($this->curl, [
            CURLOPT_UPLOAD => true,
            CURLOPT_INFILESIZE => strlen($body),
            CURLOPT_READFUNCTION => static function ($curl, $file, int $length) use ($body, &$at): string {
                $part = substr($body, $at, $length);
                $at += strlen($part);
                return $part;
            },
        ]);
    }
}
