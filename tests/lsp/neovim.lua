-- Uses the server as a person in Neovim does, with the configuration of the README.
-- Run: nvim --headless --clean -l neovim.lua CONFIGURATION.lua SAMPLE.py
-- Prints a line for each check, ok or FAIL, and at last: end.
local configuration, sample = _G.arg[1], _G.arg[2]

-- For what comes at once, and for what has to wait for torch to be imported and a run.
local SOON, RUN = 15000, 60000

local failed = false

local function check(name, ok, seen)
  failed = failed or not ok
  local extra = ok and '' or ('  ' .. vim.inspect(seen):gsub('%s+', ' '))
  io.write((ok and 'ok   ' or 'FAIL ') .. name .. extra .. '\n')
end

-- Waits until what look() gives is as wanted; checks and gives what was seen last.
local function eventually(name, milliseconds, look, wanted)
  local seen
  local ok = vim.wait(milliseconds, function()
    seen = look()
    return wanted(seen)
  end, 20)
  check(name, ok, seen)
  return seen
end

local questions = {}
vim.ui.select = function(items, options, answer)
  table.insert(questions, options.prompt or '')
  answer(nil)
end
vim.fn.inputlist = function(lines)
  table.insert(questions, table.concat(lines, ' '))
  return 0
end

vim.o.columns, vim.o.lines = 160, 40
vim.cmd.filetype('on')
dofile(configuration)
-- How fast an operator is must not decide whether its line has a hint.
vim.lsp.config('profile_neuron', { settings = { profileNeuron = { hints = { minShare = 0, minTime = '0us' } } } })

vim.cmd.edit(sample)
local buffer = vim.api.nvim_get_current_buf()

-- Lines are counted from 1 here.
local function text(line)
  return vim.api.nvim_buf_get_lines(buffer, line - 1, line, true)[1]
end

local function line_of(wanted, after)
  for line = after or 1, vim.api.nvim_buf_line_count(buffer) do
    if vim.startswith(text(line), wanted) then
      return line
    end
  end
  error('the sample has no line that begins with ' .. wanted)
end

local function decorator_of(name)
  return line_of('def ' .. name) - 1
end

-- What a person sees at the ends of lines; a hint elsewhere in a line says so.
local function hints()
  local found = {}
  for _, item in ipairs(vim.lsp.inlay_hint.get({ bufnr = buffer })) do
    local line, label = item.inlay_hint.position.line + 1, item.inlay_hint.label
    local at_end = item.inlay_hint.position.character == #text(line)
    found[line] = (found[line] or '') .. label .. (at_end and '' or ' (not at the end)')
  end
  return found
end

local function lenses()
  local found = {}
  for _, lens in ipairs(vim.lsp.codelens.get(buffer)) do
    local line = lens.range.start.line + 1
    found[line] = (found[line] and found[line] .. ' | ' or '') .. lens.command.title
  end
  return found
end

-- Text that is drawn beside a line, and what the screen shows of the line.
local function drawn()
  vim.cmd.redraw()
  local found = { hints = {}, lenses = {}, screen = {} }
  for name, namespace in pairs(vim.api.nvim_get_namespaces()) do
    local kind = name == 'nvim.lsp.inlayhint' and 'hints' or name:match('^nvim%.lsp%.codelens:') and 'lenses'
    if kind then
      for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(buffer, namespace, 0, -1, { details = true })) do
        local line, column, details = mark[2] + 1, mark[3], mark[4]
        local parts = vim.tbl_map(function(part)
          return part[1]
        end, details.virt_text)
        local where = kind == 'lenses' and '' or ('%s %s '):format(details.virt_text_pos, column == #text(line) and 'end' or column)
        found[kind][line] = where .. table.concat(parts)
      end
    end
  end
  for row = 1, vim.o.lines do
    local cells = {}
    for column = 1, vim.o.columns do
      table.insert(cells, vim.fn.screenstring(row, column))
    end
    table.insert(found.screen, vim.trim(table.concat(cells)))
  end
  return found
end

local function is_on_screen(screen, line_text, beside)
  return vim.list_contains(screen, vim.trim(line_text) .. beside)
end

-- Whether there are hints on these lines, on no other of these bounds, and all like a pattern.
local function are_like(found, first, last, without, patterns)
  for line = first, last do
    local pattern = line ~= without and (patterns[line] or patterns.all) or nil
    if pattern == nil and found[line] ~= nil then
      return false
    end
    if pattern ~= nil and not (found[line] or ''):match(pattern) then
      return false
    end
  end
  return true
end

local function press(keys)
  vim.api.nvim_feedkeys(keys, 'mx', false)
end

local function go_to(line)
  vim.api.nvim_win_set_cursor(0, { line, 0 })
end

-- Where an earlier result of other code is known, what became of it may follow: ▲334 %.
local ONE_OP = '^cpu [%d.]+ %S+ · <?%d+ %% · 1 op[^·]*$'
local TWO_OPS = '^cpu [%d.]+ %S+ · <?%d+ %% · 2 ops[^·]*$'
local TO_TRUST, TO_PROFILE = 'Trust this workspace to profile', 'Profile on the CPU'

local naive, fused, compiled = decorator_of('naive'), decorator_of('fused'), decorator_of('compiled') - 1
-- The six statements of naive.
local first = naive + 2
local last = first + 5

local clients = eventually('the client attaches', SOON, function()
  return vim.tbl_map(function(client)
    return client.name
  end, vim.lsp.get_clients({ bufnr = buffer }))
end, function(seen)
  return vim.deep_equal(seen, { 'profile_neuron' })
end)
assert(#clients == 1, 'no client')
local client = vim.lsp.get_clients({ bufnr = buffer })[1]
check('the root is the folder of the project', client.root_dir == vim.fs.dirname(sample), client.root_dir)

eventually('each marked function has a lens', SOON, lenses, function(seen)
  return vim.deep_equal(seen, { [naive] = TO_TRUST, [fused] = TO_TRUST, [compiled] = TO_TRUST })
end)
check('nothing has a hint', vim.tbl_isempty(hints()), hints())

go_to(naive)
press('\\pl')
local seen = eventually('the lens gives trust and profiles naive: a hint on each of its statements', RUN, hints, function(found)
  return vim.tbl_count(found) == 6 and are_like(found, first, last, nil, { all = ONE_OP })
end)
check('nothing was asked', #questions == 0, questions)
local titles = eventually('its lens has the total, the others can be run', SOON, lenses, function(found)
  return (found[naive] or ''):match('^cpu [%d.]+ %S+ | Re%-profile$') ~= nil
    and found[fused] == TO_PROFILE
    and found[compiled] == TO_PROFILE
end)
eventually('hints are drawn at the ends of the lines', SOON, drawn, function(found)
  local wanted = {}
  for line, label in pairs(seen) do
    wanted[line] = 'inline end  ' .. label
    if not is_on_screen(found.screen, text(line), ' ' .. label) then
      return false
    end
  end
  return vim.deep_equal(found.hints, wanted)
end)
eventually('lenses are drawn at the decorators', SOON, drawn, function(found)
  return vim.deep_equal(found.lenses, titles) and is_on_screen(found.screen, text(naive), ' ' .. titles[naive])
end)

go_to(fused + 2)
press('\\pp')
eventually('the key for the function at the cursor profiles fused', RUN, hints, function(found)
  return vim.tbl_count(found) == 7 and (found[fused + 2] or ''):match('^cpu [%d.]+ %S+ · 100 %% · 1 op$') ~= nil
end)
eventually('its lens has the total', SOON, lenses, function(found)
  return (found[fused] or ''):match('^cpu [%d.]+ %S+ | Re%-profile$') ~= nil
end)

go_to(first)
press('0C    squared = x * x + x' .. vim.keycode('<Esc>'))
check('the statement is edited', text(first) == '    squared = x * x + x', text(first))
eventually('an edit takes the hint of its statement and marks the rest', SOON, hints, function(found)
  return are_like(found, first, last, first, { all = '^~cpu [%d.]+ %S+$' })
end)
eventually('its lens says that it was edited', SOON, lenses, function(found)
  return (found[naive] or ''):match('^cpu [%d.]+ %S+ %(edited since') ~= nil
end)
eventually('what is drawn is marked too', SOON, drawn, function(found)
  return found.hints[first] == nil and (found.hints[last] or ''):match('^inline end  ~cpu ') ~= nil
end)

vim.cmd('silent write')
eventually('a save brings new hints', RUN, hints, function(found)
  return are_like(found, first, last, nil, { all = ONE_OP, [first] = TWO_OPS })
end)
eventually('and a new total', SOON, lenses, function(found)
  -- On a quiet machine it is said what that did: · ▲102 % vs previous.
  return (found[naive] or ''):match('^cpu [%d.]+ %S+.* | Re%-profile$') ~= nil
end)
check('still nothing was asked', #questions == 0, questions)

client:stop()
eventually('the server ends', SOON, function()
  return client:is_stopped()
end, function(stopped)
  return stopped
end)
io.write('end\n')
os.exit(failed and 1 or 0)
