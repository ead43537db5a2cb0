// SPDX-License-Identifier: Apache-2.0
// Chooses and stores the settings of a standalone machine. Later starts reuse stored values.
import type { JsonObject } from "@patchbay/api/json";
import { AppError } from "@patchbay/base";
import type { Files } from "@patchbay/core/interfaces";
import { parseFields, readNumber, readFields, readText } from "../data-dir/json.ts";
import { checkDataFormat, DATA_FORMAT, KIND } from "../data-dir/ownership.ts";
import type { Paths } from "../data-dir/paths.ts";
import {
  isPort,
  findSettingProblems,
  type OtherMachine,
  type RequestedSettings,
} from "./problems.ts";
import { chooseFreeSubnet, listFreeServiceSubnets } from "./subnet.ts";

export type Argv = readonly [string, ...string[]];

export interface Settings {
  readonly apiPort: number;
  /** Address at which pods and remote clients reach the API server; unset if the server listens only on the loopback address. */
  readonly apiAddress?: string;
  readonly virtApiPort: number;
  readonly virtHandlerPort: number;
  readonly nodeName: string;
  /** Network of pods, a /24 in CIDR notation. */
  readonly podSubnet: string;
  /** Network of Services, a /16 in CIDR notation. */
  readonly serviceSubnet: string;
  readonly bridge: string;
  /** GID of the vhost-user dataplane. Unset if the dataplane runs as root. */
  readonly dataplaneGroup?: number;
  /**
   * Command of another program that serves the API. The supervisor appends the same JSON text as for its own API server, as
   * one argument. This setting exists only in the settings file.
   */
  readonly apiServerCommand?: Argv;
}

export type WantedSettings = Partial<
  Omit<Settings, "virtApiPort" | "virtHandlerPort" | "apiServerCommand">
>;

const DEFAULT_API_PORT = 6443;
const DEFAULT_BRIDGE = "patchbay0";
const PORT_TRIES = 100;

function findCommand(fields: JsonObject | undefined): Argv | undefined {
  const argv = fields?.["apiServerCommand"];
  if (!Array.isArray(argv)) return undefined;
  const [program, ...args] = argv.filter((arg) => typeof arg === "string");
  return program === undefined ? undefined : [program, ...args];
}

async function findFreePort(firstPort: number, machine: MachineFacts): Promise<number> {
  for (let port = firstPort; port < firstPort + PORT_TRIES; port += 1) {
    if (await machine.isPortFree(port)) return port;
  }
  const causes = `virt-api and virt-handler need a port each, but no port from ${String(firstPort)} on is free`;
  throw new AppError("STANDALONE_SETTING_INVALID", { causes });
}

export interface MachineFacts {
  readonly hostname: string;
  readonly listLinks: () => Promise<readonly string[]>;
  readonly isPortFree: (port: number) => Promise<boolean>;
  readonly listRoutes: () => Promise<readonly string[]>;
  readonly listMachines: () => Promise<readonly OtherMachine[]>;
  /** Claims a subnet for Services. Returns false on failure, for example if another machine has claimed the subnet. */
  readonly claimServiceSubnet: (network: string) => Promise<boolean>;
}

interface SettingsDeps {
  readonly files: Files;
  readonly paths: Paths;
}

const NUMBER_SETTINGS = ["apiPort", "dataplaneGroup"] as const;
const TEXT_SETTINGS = ["apiAddress", "nodeName", "podSubnet", "serviceSubnet", "bridge"] as const;

/** Reads the settings of an administrator's file. A missing file has none. @throws AppError with STANDALONE_SETTING_INVALID */
export async function readSettingsFile(
  files: Files,
  file: string | undefined,
): Promise<WantedSettings> {
  const text = file === undefined ? undefined : await files.readText(file);
  if (file === undefined || text === undefined) return {};
  const fields = parseFields(text);
  const isValid = ([name, value]: readonly [string, unknown]): boolean =>
    (typeof value === "number" && NUMBER_SETTINGS.some((known) => known === name)) ||
    (typeof value === "string" && TEXT_SETTINGS.some((known) => known === name));
  const invalid = Object.entries(fields ?? {}).filter((entry) => !isValid(entry));
  if (fields !== undefined && invalid.length === 0) return fields;
  const names = invalid.map(([name]) => name).join(", ");
  const reason =
    fields === undefined ? "it is not a JSON object" : `these are no settings: ${names}`;
  throw new AppError("STANDALONE_SETTING_INVALID", { causes: `${file}: ${reason}` });
}

export async function readSettings({ files, paths }: SettingsDeps): Promise<Partial<Settings>> {
  const fields = await readFields(files, paths.settings);
  checkDataFormat(fields, paths.dataDir);
  const names = [...NUMBER_SETTINGS, ...TEXT_SETTINGS, "virtApiPort", "virtHandlerPort"] as const;
  const stored = names.flatMap((name): [string, string | number][] => {
    const value = readNumber(fields, name) ?? readText(fields, name);
    return value === "" ? [] : [[name, value]];
  });
  const apiServerCommand = findCommand(fields);
  return {
    ...Object.fromEntries(stored),
    ...(apiServerCommand !== undefined && { apiServerCommand }),
  };
}

function mergeSettings(
  newSettings: WantedSettings,
  stored: Partial<Settings>,
  hostname: string,
): RequestedSettings {
  return {
    apiPort: DEFAULT_API_PORT,
    nodeName: hostname,
    bridge: DEFAULT_BRIDGE,
    ...stored,
    ...newSettings,
  };
}

/** @throws AppError with STANDALONE_SETTING_INVALID */
export async function checkSettings(
  deps: SettingsDeps,
  newSettings: WantedSettings,
  machine: MachineFacts,
): Promise<void> {
  const stored = await readSettings(deps);
  const requested = mergeSettings(newSettings, stored, machine.hostname);
  const host = {
    machines: await machine.listMachines(),
    links: await machine.listLinks(),
    routes: await machine.listRoutes(),
    isPortFree: isPort(requested.apiPort) && (await machine.isPortFree(requested.apiPort)),
  };
  const problems = findSettingProblems(requested, stored, host);
  if (problems.length === 0) return;
  throw new AppError("STANDALONE_SETTING_INVALID", { causes: problems.join("; ") });
}

async function writeSettings({ files, paths }: SettingsDeps, settings: Settings): Promise<void> {
  const text = `${JSON.stringify({ kind: KIND, format: DATA_FORMAT, ...settings }, undefined, 2)}\n`;
  if (text === (await files.readText(paths.settings))) return;
  await files.writeAtomic(paths.settings, text);
}

async function listUsedSubnets(machine: MachineFacts): Promise<readonly string[]> {
  const ofMachines = (await machine.listMachines()).flatMap(({ settings }) =>
    [settings.podSubnet, settings.serviceSubnet].filter((subnet) => subnet !== undefined),
  );
  return [...(await machine.listRoutes()), ...ofMachines];
}

/** Claims a free subnet for Services. Stores the settings first, so that `patchbay down` can release the subnet after a crash. */
async function claimFreeServiceSubnet(
  deps: SettingsDeps,
  buildSettings: (serviceSubnet: string) => Settings,
  machine: MachineFacts,
): Promise<Settings> {
  const { files, paths } = deps;
  const previousText = await files.readText(paths.settings);
  for (const network of listFreeServiceSubnets(await listUsedSubnets(machine))) {
    const settings = buildSettings(network);
    await writeSettings(deps, settings);
    if (await machine.claimServiceSubnet(network)) return settings;
  }
  await (previousText === undefined
    ? files.remove(paths.settings)
    : files.writeAtomic(paths.settings, previousText));
  const causes =
    "Services need a network, but none of 10.96.0.0/16 to 10.111.0.0/16 is free; choose another with --service-subnet";
  throw new AppError("STANDALONE_SETTING_INVALID", { causes });
}

/** @throws AppError with STANDALONE_SETTING_INVALID */
export async function storeSettings(
  deps: SettingsDeps,
  newSettings: WantedSettings,
  machine: MachineFacts,
): Promise<Settings> {
  await checkSettings(deps, newSettings, machine);
  const stored = await readSettings(deps);
  const requested = mergeSettings(newSettings, stored, machine.hostname);
  const { apiPort, apiAddress, nodeName, bridge, podSubnet, serviceSubnet, dataplaneGroup } =
    requested;
  const storedPort = stored.virtApiPort === apiPort ? undefined : stored.virtApiPort;
  const virtApiPort = storedPort ?? (await findFreePort(apiPort + 1, machine));
  const { virtHandlerPort: storedHandlerPort } = stored;
  const isStoredPortUsable =
    storedHandlerPort !== undefined && ![apiPort, virtApiPort].includes(storedHandlerPort);
  const virtHandlerPort = isStoredPortUsable
    ? storedHandlerPort
    : await findFreePort(virtApiPort + 1, machine);
  const chosenPodSubnet = podSubnet ?? chooseFreeSubnet(await listUsedSubnets(machine));
  const buildSettings = (chosenServiceSubnet: string): Settings => ({
    apiPort,
    ...(apiAddress !== undefined && { apiAddress }),
    virtApiPort,
    virtHandlerPort,
    nodeName,
    podSubnet: chosenPodSubnet,
    serviceSubnet: chosenServiceSubnet,
    bridge,
    ...(dataplaneGroup !== undefined && { dataplaneGroup }),
    ...(stored.apiServerCommand !== undefined && { apiServerCommand: stored.apiServerCommand }),
  });
  if (serviceSubnet === undefined) return claimFreeServiceSubnet(deps, buildSettings, machine);
  const settings = buildSettings(serviceSubnet);
  await writeSettings(deps, settings);
  return settings;
}
