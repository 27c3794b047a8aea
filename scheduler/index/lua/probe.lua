-- KEYS a set that only this test uses. Makes the same calls as a change of entries, and leaves no entry.
call('ZADD', KEYS[1], 0, 'probe')
call('ZREM', KEYS[1], 'probe')
return 1
