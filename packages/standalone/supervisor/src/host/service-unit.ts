// SPDX-License-Identifier: Apache-2.0
import type { Files, ProcessRunner } from "@patchbay/core/interfaces";

const UNIT_FILE = "/etc/systemd/system/patchbay.service";
/** Directory that exists while systemd is PID 1. Source: sd_booted(3). */
const SYSTEMD_DIR = "/run/systemd/system";
const TIMEOUT_MS = 30_000;
/** Priority of Patchbay's services, so that pods cannot delay them when processors are scarce. Containers get the priority of pods (0) when they start. */
export const SERVICE_NICENESS = -10;

function quote(argument: string): string {
  return `"${argument.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("%", "%%").replaceAll("$", "$$$$")}"`;
}

/** Returns the text of the unit. systemd signals only the supervisor, which stops the components in order. */
export function buildUnitText(command: readonly string[]): string {
  return `# SPDX-License-Identifier: Apache-2.0
[Unit]
Description=Patchbay standalone machine
After=network.target

[Service]
Type=exec
Nice=${String(SERVICE_NICENESS)}
CPUWeight=900
ExecStart=${command.map(quote).join(" ")}
Restart=always
RestartSec=1
KillMode=process
TimeoutStopSec=300
Delegate=yes
TasksMax=infinity
LimitNOFILE=1048576

[Install]
WantedBy=multi-user.target
`;
}

export function hasSystemd(files: Files): Promise<boolean> {
  return files.exists(SYSTEMD_DIR);
}

export async function installService(
  { files, runner }: { readonly files: Files; readonly runner: ProcessRunner },
  command: readonly string[],
  action: "enable" | "start",
): Promise<"enabled" | "started" | "written"> {
  await files.writeAtomic(UNIT_FILE, buildUnitText(command));
  if (!(await hasSystemd(files))) return "written";
  await runner.run({ argv: ["systemctl", "daemon-reload"], timeoutMs: TIMEOUT_MS });
  const nowFlags = action === "start" ? ["--now"] : [];
  const argv = ["systemctl", "enable", ...nowFlags, "patchbay.service"] as const;
  await runner.run({ argv, timeoutMs: TIMEOUT_MS });
  return action === "start" ? "started" : "enabled";
}

export function isInstalled(files: Files): Promise<boolean> {
  return files.exists(UNIT_FILE);
}

/** Makes systemd stop the service, and does not wait for the end. If only the supervisor were stopped, systemd would restart it. */
export async function stopService(runner: ProcessRunner): Promise<void> {
  const argv = ["systemctl", "stop", "--no-block", "patchbay.service"] as const;
  await runner.run({ argv, timeoutMs: TIMEOUT_MS });
}
