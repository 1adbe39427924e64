-- One GCRA decision, as people put it into Redis: the moment of emptiness in microseconds.
-- KEYS[1] key; ARGV: emission interval in us, capacity
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, room = tonumber(ARGV[1]), ARGV[1] * ARGV[2]
local moment = tonumber(redis.call('GET', KEYS[1]) or now)
local after = math.max(moment, now) + interval
if after - now > room then
    return {1, 0, math.ceil((after - now - room) / 1000000)}
end
redis.call('SET', KEYS[1], string.format('%.0f', after), 'PX', math.ceil((after - now) / 1000))
return {0, math.floor((room - (after - now)) / interval), -1}
