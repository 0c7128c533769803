# Reports prompts, commands and the working directory to the host, with OSC 633 and a nonce.
# Run by PowerShell with -NoExit -File, after the user's own profile.

$Global:__InnkeeperNonce = $env:INNKEEPER_NONCE
$env:INNKEEPER_NONCE = $null
$Global:__InnkeeperPrompt = $function:Prompt
$Global:__InnkeeperReadLine = $function:PSConsoleHostReadLine
$Global:__InnkeeperRan = $false

# Escapes a text for a report.
function Global:__Innkeeper-Escape([string]$Text) {
    [regex]::Replace($Text, "[\\\x00-\x1f;]", { param($Match)
        -join ([Text.Encoding]::UTF8.GetBytes($Match.Value) | ForEach-Object { '\x{0:x2}' -f $_ })
    })
}

function Global:Prompt() {
    $Success = $?
    $Code = if ($Success) { 0 } elseif ($Global:LASTEXITCODE) { $Global:LASTEXITCODE } else { 1 }
    $Esc = [char]27; $Bell = [char]7; $Nonce = $Global:__InnkeeperNonce
    $Out = ''
    if ($Global:__InnkeeperRan) { $Out += "$Esc]633;D;$Code;$Nonce$Bell" }
    $Global:__InnkeeperRan = $false
    if ($PWD.Provider.Name -eq 'FileSystem') {
        $Out += "$Esc]633;P;Cwd=$(__Innkeeper-Escape $PWD.ProviderPath);$Nonce$Bell"
    }
    $Out += "$Esc]633;A;$Nonce$Bell"
    $Out += $Global:__InnkeeperPrompt.Invoke()
    $Out += "$Esc]633;B;$Nonce$Bell"
    $Out
}

if ($Global:__InnkeeperReadLine) {
    function Global:PSConsoleHostReadLine {
        $Line = $Global:__InnkeeperReadLine.Invoke()
        $Esc = [char]27; $Bell = [char]7; $Nonce = $Global:__InnkeeperNonce
        if ("$Line".Trim()) {
            $Global:__InnkeeperRan = $true
            [Console]::Write("$Esc]633;E;$(__Innkeeper-Escape "$Line");$Nonce$Bell$Esc]633;C;$Nonce$Bell")
        }
        $Line
    }
}
