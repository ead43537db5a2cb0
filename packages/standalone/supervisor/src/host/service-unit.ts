// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/base";
import type { Files, ProcessRunner } from "@patchbay/core/interfaces";
import { parseFields, readText } from "../data-dir/json.ts";

const UNIT = "patchbay.service";
const UNIT_FILE = `/etc/systemd/system/${UNIT}`;
/** Unit of the Debian package. systemd ignores it while {@link UNIT_FILE} exists. */
const PACKAGED_UNIT_FILE = `/usr/lib/systemd/system/${UNIT}`;
const BOOT_LINK = `/etc/systemd/system/multi-user.target.wants/${UNIT}`;
/** Directory that exists while systemd is PID 1. Source: sd_booted(3). */
const SYSTEMD_DIR = "/run/systemd/system";
const TIMEOUT_MS = 30_000;
/** Priority of Patchbay's services, so that pods cannot delay them when processors are scarce. Containers get the priority of pods (0) when they start. */
export const SERVICE_NICENESS = -10;

export interface ServiceDeps {
  readonly files: Files;
  readonly runner: ProcessRunner;
}

/** Installed systemd unit. Each host has at most one. */
export interface Service {
  readonly dataDir: string;
  readonly isPackaged: boolean;
  readonly startsAtBoot: boolean;
}

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

/** Returns the data directory in the last argument of the unit's command, which `quote` has quoted. */
function parseDataDir(unitText: string): string | undefined {
  const line = unitText.split("\n").find((text) => text.startsWith("ExecStart=")) ?? "";
  const argument = line
    .slice(line.lastIndexOf(' "{') + 2, -1)
    .replaceAll("$$", "$")
    .replaceAll("%%", "%")
    .replaceAll(/\\(.)/g, "$1");
  const dataDir = readText(parseFields(argument), "dataDir");
  return dataDir === "" ? undefined : dataDir;
}

export async function findService(files: Files): Promise<Service | undefined> {
  const ownText = await files.readText(UNIT_FILE);
  const dataDir = parseDataDir(ownText ?? (await files.readText(PACKAGED_UNIT_FILE)) ?? "");
  if (dataDir === undefined) return undefined;
  return {
    dataDir,
    isPackaged: ownText === undefined,
    startsAtBoot: await files.exists(BOOT_LINK),
  };
}

export function hasSystemd(files: Files): Promise<boolean> {
  return files.exists(SYSTEMD_DIR);
}

async function runSystemctl(runner: ProcessRunner, ...args: readonly string[]): Promise<void> {
  const { exitCode, stderr } = await runner.run({
    argv: ["systemctl", ...args],
    timeoutMs: TIMEOUT_MS,
  });
  if (exitCode === 0) return;
  const program = `systemctl ${args.join(" ")}`;
  throw new AppError("OS_PROGRAM_FAILED", { program, exitCode, stderr: stderr.trim() });
}

/** Changes nothing. @throws AppError with STANDALONE_NO_SYSTEMD, or STANDALONE_SERVICE_TAKEN for the unit of another machine */
export async function rejectServiceConflict(files: Files, dataDir: string): Promise<void> {
  if (!(await hasSystemd(files))) throw new AppError("STANDALONE_NO_SYSTEMD");
  const service = await findService(files);
  if (service === undefined || service.dataDir === dataDir) return;
  if (service.isPackaged && !service.startsAtBoot) return;
  throw new AppError("STANDALONE_SERVICE_TAKEN", { dataDir: service.dataDir });
}

async function writeUnit({ files, runner }: ServiceDeps, text: string | undefined): Promise<void> {
  if (text === (await files.readText(UNIT_FILE))) return;
  await (text === undefined ? files.remove(UNIT_FILE) : files.writeAtomic(UNIT_FILE, text));
  await runSystemctl(runner, "daemon-reload");
}

export async function refreshService(deps: ServiceDeps, command: readonly string[]): Promise<void> {
  await writeUnit(deps, buildUnitText(command));
}

/** Makes systemd start the machine at boot. A failure changes nothing. @throws AppError as {@link rejectServiceConflict}, or with OS_PROGRAM_FAILED */
export async function installService(
  deps: ServiceDeps,
  dataDir: string,
  command: readonly string[],
): Promise<void> {
  const { files, runner } = deps;
  await rejectServiceConflict(files, dataDir);
  const previousText = await files.readText(UNIT_FILE);
  const service = await findService(files);
  const isPackaged = service?.isPackaged === true && service.dataDir === dataDir;
  try {
    if (!isPackaged) await writeUnit(deps, buildUnitText(command));
    await runSystemctl(runner, "enable", UNIT);
  } catch (error) {
    await writeUnit(deps, previousText).catch(() => undefined); // The first error has the cause.
    throw error;
  }
}

/** Undoes {@link installService}, without stopping the machine. Returns false if no unit starts this machine. */
export async function uninstallService(deps: ServiceDeps, dataDir: string): Promise<boolean> {
  const service = await findService(deps.files);
  if (service?.dataDir !== dataDir) return false;
  if (await hasSystemd(deps.files)) {
    await runSystemctl(deps.runner, "disable", UNIT);
    await writeUnit(deps, undefined);
  } else {
    await deps.files.remove(BOOT_LINK);
    await deps.files.remove(UNIT_FILE);
  }
  return service.startsAtBoot || !service.isPackaged;
}

export async function isServiceOf(files: Files, dataDir: string): Promise<boolean> {
  return (await hasSystemd(files)) && (await findService(files))?.dataDir === dataDir;
}

export async function startService(runner: ProcessRunner): Promise<void> {
  await runSystemctl(runner, "start", UNIT);
}

/** Makes systemd stop the service, and does not wait for the end. If only the supervisor were stopped, systemd would restart it. */
export async function stopService(runner: ProcessRunner): Promise<void> {
  await runSystemctl(runner, "stop", "--no-block", UNIT);
}
