// The three Lua scripts of the Redis counter: the same arithmetic as kernel/ratelimit/window.ts, on Redis' own clock.
// Caution: Lua 5.1 has only doubles. As a command argument an integer arrives intact (Redis prints 17 digits), but
// Lua's own `..` and table.concat print 14, so numbers in a text go through `int` first; and a reply has integers only
// (Redis truncates fractions).
//
// A counter is a hash. Field `h` is four doubles: the sum of all spans, the oldest span holding units, the newest span
// and its units. Every older span is a field of its own, "<span>" = units. So a check reads and writes one field; all
// of them are read only after a span has expired, or to deny. The key expires when its newest span does. A lease is a
// string, "granted end key span key span …", that Redis deletes at the lease's end.
//
// A new counter is counted by its cell and the class of its window, in a number that expires with the class. It leaves
// a mark that expires with the number: a counter that expired and is opened again must not count twice. At the bound a
// counter without a mark is not opened; its rule's overflow counter is used instead. A mark is a key of its own and not
// a member of a set: Redis frees a large set at once, during which it serves no other workspace. All these keys have
// the hash tag of the workspace, so they are on the same node although they are not declared.
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../kernel/durations.ts";
import { LEASE_MAX_MS, SUB_WINDOWS, SUB_WINDOWS_AHEAD } from "../../kernel/ratelimit/window.ts";
import { script } from "./script.ts";

/** Under a test's clock, Redis' own clock must not expire a key that the test still counts. */
const TEST_GRACE_MS = 600_000;

// `now` comes from ARGV in tests only; an empty text means Redis' own clock.
const clock = `
local call, floor, ceil, tonumber, pack, struct_unpack = redis.call, math.floor, math.ceil, tonumber, struct.pack, struct.unpack
local now, grace
local function tick(given)
  now, grace = tonumber(given), ${TEST_GRACE_MS}
  if now then return end
  local time = call('TIME')
  now, grace = time[1] * 1000 + floor(time[2] / 1000), 0
end

local function spans_of(key, newest, here)
  local found, flat = {}, call('HGETALL', key)
  for i = 1, #flat, 2 do
    local span = tonumber(flat[i])
    if span then found[span] = tonumber(flat[i + 1]) end
  end
  if here > 0 then found[newest] = here end
  return found
end

local function int(x) return string.format('%.0f', x) end
`;

// The window classes: how long the number of a cell's new counters is kept.
const newcomers = `
local classes = { ${MINUTE_MS}, ${HOUR_MS}, ${DAY_MS}, ${31 * DAY_MS} }
local bound
local function class_of(key, env, window)
  local i = 1
  while i < #classes and window > classes[i] do i = i + 1 end
  return string.match(key, '^.-}:') .. 'new:' .. env .. i, classes[i]
end
local function mark_of(key) return key .. ':new' end
local function count_newcomer(r)
  if call('EXISTS', mark_of(r.key)) == 1 then return end
  local number, length = class_of(r.key, r.env, r.window)
  if call('INCR', number) == 1 then call('PEXPIRE', number, length + grace) end
  call('SET', mark_of(r.key), '', 'PX', math.max(1, call('PTTL', number)))
end
local function has_room(key, env, window)
  return tonumber(call('GET', (class_of(key, env, window))) or 0) < bound or call('EXISTS', mark_of(key)) == 1
end
`;

// A rule is three arguments, limit, window and its own name; the window of a fixed rule is negative. Its table is
// reused by the next check of the batch. `first` is the oldest span that counts, `gone` are the expired ones.
const rules = `
local pool, overflowed = {}, 0
local function read(i, key, limit, window, rule, env)
  local r = pool[i]
  if not r then
    r = {}
    pool[i] = r
  end
  r.key, r.limit, r.fixed, r.window, r.gone = key, limit, window < 0, math.abs(window), nil
  r.span = floor(r.fixed and now / r.window or now * ${SUB_WINDOWS} / r.window)
  r.total, r.oldest, r.newest, r.here = 0, 0, 0, 0
  local head = call('HGET', key, 'h')
  r.env, r.new = env, not head and has_room(key, env, r.window)
  if not head and not r.new then
    key = string.match(key, '^.-}:') .. 'rest:' .. rule
    r.key, head = key, call('HGET', key, 'h')
    overflowed = overflowed + 1
  end
  if not head then return r end
  r.total, r.oldest, r.newest, r.here = struct_unpack('<dddd', head)
  local first = r.fixed and r.span or r.span - ${SUB_WINDOWS}
  if r.total == 0 or r.oldest >= first then return r end
  r.total, r.oldest, r.gone = 0, r.newest, {}
  for span, units in pairs(spans_of(key, r.newest, r.here)) do
    if span < first then
      r.gone[#r.gone + 1] = span
    else
      r.total = r.total + units
      if span < r.oldest then r.oldest = span end
    end
  end
  return r
end

local function lapses(r, span)
  if r.fixed then return (span + 1) * r.window end
  return ceil((span + ${SUB_WINDOWS + 1}) * r.window / ${SUB_WINDOWS})
end

local function wait(r, need)
  if need > r.limit then return -1 end
  local over = r.total + need - r.limit
  if over <= 0 then return 0 end
  -- Spans are further apart only when this server's clock was set back; then do not iterate through the gap.
  local found = spans_of(r.key, r.newest, r.here)
  for span = r.oldest, math.min(r.newest, r.oldest + ${SUB_WINDOWS + SUB_WINDOWS_AHEAD}) do
    over = over - (found[span] or 0)
    if over <= 0 then return lapses(r, span) - now end
  end
  return r.window
end

local function charge(r, span, units)
  local newer
  if r.total == 0 then
    if r.new then
      count_newcomer(r)
      r.new = false
    end
    call('DEL', r.key)
    r.oldest, r.newest, r.here, newer = span, span, 0, true
  else
    if r.gone then call('HDEL', r.key, unpack(r.gone)) end
    if span < r.oldest then r.oldest = span end
    newer = span > r.newest
    if newer then
      if r.here > 0 then call('HSET', r.key, r.newest, r.here) end
      r.newest, r.here = span, 0
    end
  end
  if span == r.newest then r.here = r.here + units else call('HINCRBY', r.key, span, units) end
  r.total = r.total + units
  call('HSET', r.key, 'h', pack('<dddd', r.total, r.oldest, r.newest, r.here))
  if newer then call('PEXPIRE', r.key, lapses(r, span) - now + grace) end
end

local answer, size = {}, 0
local function report(r, pause)
  local reset = 0
  if r.fixed then reset = lapses(r, r.span) - now
  elseif r.total > 0 then reset = lapses(r, r.oldest) - now end
  answer[size + 1] = r.total < r.limit and r.limit - r.total or 0
  answer[size + 2] = reset
  answer[size + 3] = pause
  size = size + 3
end
local function reply()
  answer[size + 1] = overflowed
  return answer
end
`;

// Fast path for the usual check: one sliding rule with room and nothing expired, in local variables. The general code
// below decides the same. bench: limiter/redis-check
const fastPath = `
local function fast_path(key, limit, window, cost)
  local head = window > 0 and call('HGET', key, 'h')
  if not head then return false end
  local span = floor(now * ${SUB_WINDOWS} / window)
  local total, oldest, newest, here = struct_unpack('<dddd', head)
  if total == 0 or total + cost > limit or oldest < span - ${SUB_WINDOWS} or span < newest then return false end
  total = total + cost
  if span == newest then
    call('HSET', key, 'h', pack('<dddd', total, oldest, newest, here + cost))
  else
    if here > 0 then
      call('HSET', key, 'h', pack('<dddd', total, oldest, span, cost), newest, here)
    else
      call('HSET', key, 'h', pack('<dddd', total, oldest, span, cost))
    end
    call('PEXPIRE', key, ceil((span + ${SUB_WINDOWS + 1}) * window / ${SUB_WINDOWS}) - now + grace)
  end
  answer[size + 1] = limit - total
  answer[size + 2] = ceil((oldest + ${SUB_WINDOWS + 1}) * window / ${SUB_WINDOWS}) - now
  answer[size + 3] = 0
  size = size + 3
  return true
end
`;

/**
 * Several checks in sequence. KEYS: their counters. ARGV: 1 when each check has its own time (tests), else 0; the bound
 * of a cell; then for each check 32 × its cost + 16 for test + its number of rules, the rules, its time. Returns
 * remaining, reset and wait per rule (wait 0 allows, -1 never will), then how many rules used an overflow counter.
 */
const check = `
local timed, at, key = ARGV[1] == '1', 3, 0
bound = tonumber(ARGV[2])
if not timed then tick('') end
local all, waits = {}, {}
local function decide(cost, count, env)
  local need, allowed = cost > 0 and cost or 1, true
  for i = 1, count do
    local rule = at + 3 * i
    all[i] = read(i, KEYS[key + i], tonumber(ARGV[rule - 2]), tonumber(ARGV[rule - 1]), ARGV[rule], env)
    waits[i] = wait(all[i], need)
    if waits[i] ~= 0 then allowed = false end
  end
  for i = 1, count do
    local r = all[i]
    if allowed and cost > 0 then charge(r, r.span, cost) end
    report(r, waits[i])
  end
end
while at <= #ARGV do
  local head = tonumber(ARGV[at])
  local count = head % 16
  local env = floor(head / 16) % 2
  local cost = floor(head / 32)
  if timed then tick(ARGV[at + 3 * count + 1]) end
  local done = cost > 0 and count == 1 and fast_path(KEYS[key + 1], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), cost)
  if not done then decide(cost, count, env) end
  key, at = key + count, at + 3 * count + (timed and 2 or 1)
end
return reply()
`;

/**
 * KEYS: counters, then the lease. ARGV: units wanted, time, the bound of a cell, 1 for test, the rules. Returns
 * granted, expires_in_ms, then as check.
 */
const lease = `
tick(ARGV[2])
bound = tonumber(ARGV[3])
local granted, length, all = tonumber(ARGV[1]), ${LEASE_MAX_MS}, {}
for i = 1, #KEYS - 1 do
  local rule = 4 + 3 * i
  local r = read(i, KEYS[i], tonumber(ARGV[rule - 2]), tonumber(ARGV[rule - 1]), ARGV[rule], ARGV[4])
  all[i] = r
  granted = math.max(0, math.min(granted, r.limit - r.total))
  length = math.min(length, floor(r.window / 10))
  if r.fixed then length = math.min(length, lapses(r, r.span) - now) end
end
if granted == 0 then length = 0 end
answer[1], answer[2], size = granted, length, 2
local held = { int(granted), int(now + length) }
for _, r in ipairs(all) do
  if granted > 0 then
    local span = r.fixed and r.span or floor((now + length) * ${SUB_WINDOWS} / r.window)
    charge(r, span, granted)
    held[#held + 1] = r.key
    held[#held + 1] = int(span)
  end
  report(r, 0)
end
if granted > 0 then call('SET', KEYS[#KEYS], table.concat(held, ' '), 'PX', length + grace) end
return reply()
`;

/** KEYS: the lease, then its counters in its order. ARGV: units unused, time. Returns how many were credited. */
const returnLease = `
tick(ARGV[2])
local function uncharge(key, span, back)
  local head = call('HGET', key, 'h')
  if not head then return end
  local total, oldest, newest, here = struct_unpack('<dddd', head)
  local booked = span == newest and here or tonumber(call('HGET', key, span)) or 0
  local units = math.min(back, booked)
  if units == 0 then return end
  if span == newest then here = here - units
  elseif units == booked then call('HDEL', key, span)
  else call('HINCRBY', key, span, -units) end
  if span == oldest and units == booked then
    oldest = newest
    for other in pairs(spans_of(key, newest, here)) do
      if other < oldest then oldest = other end
    end
  end
  call('HSET', key, 'h', pack('<dddd', total - units, oldest, newest, here))
end

local text = call('GET', KEYS[1])
if not text then return 0 end
call('DEL', KEYS[1])
local held = {}
for part in string.gmatch(text, '%S+') do held[#held + 1] = part end
if now >= tonumber(held[2]) then return 0 end
local back = math.max(0, math.min(tonumber(ARGV[1]), tonumber(held[1])))
for i = 2, #KEYS do uncharge(KEYS[i], tonumber(held[2 * i]), back) end
return back
`;

export const CHECK = script(clock + newcomers + rules + fastPath + check);
export const LEASE = script(clock + newcomers + rules + lease);
export const RETURN_LEASE = script(clock + returnLease);
/** As GETDEL of Redis 6.2. */
export const TAKE_RECORD = script("local text = redis.call('GET', KEYS[1]) redis.call('DEL', KEYS[1]) return text");
