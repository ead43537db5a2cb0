// SPDX-License-Identifier: Apache-2.0
// Reads the settings of a new VM (disks, size, logins, MAC addresses) from the flags of `create vm` and the named files.
import type { Matcher } from "@patchbay/api";
import { isNicMac, normalizeMac } from "@patchbay/api/values";
import { AppError } from "@patchbay/base";
import { stringify } from "yaml";
import { randomBytes } from "node:crypto";
import { resolve } from "node:path";
import { chooseMac } from "@patchbay/core/nics";
import type { Files } from "@patchbay/core/interfaces";
import { addKeys, makePassword, makeUserData, readPublicKeys } from "../../cloud-init/user-data.ts";
import {
  argumentAt,
  hasFlag,
  listOption,
  numberOption,
  textOption,
  type Input,
} from "../../input.ts";
import {
  findBootVolume,
  withBootOrder,
  readMatcher,
  readVolumes,
  type MatcherFlag,
} from "./virtctl-flags.ts";
import { ifaceNames, ROOT, type NewVm } from "./vm-objects.ts";

interface NamedMac {
  readonly name: string | undefined;
  readonly mac: string;
}

/** Parses `NAME=MAC`, or a MAC without a name, which applies to the next network. */
function parseNamedMac(text: string, next: () => string | undefined): NamedMac {
  const [mac = "", name] = text.split("=").reverse();
  return { name: name ?? next(), mac };
}

function findMacProblems(
  values: readonly string[],
  assigned: readonly NamedMac[],
  names: readonly string[],
): readonly string[] {
  return assigned.flatMap(({ name, mac }, index) => {
    const text = values[index] ?? "";
    const isDuplicate = assigned.findIndex((other) => other.name === name) < index;
    if (name === undefined) return [`${text}: there is no further --network`];
    if (!names.includes(name)) return [`${text}: the VM has no interface ${name}`];
    if (isDuplicate) return [`${text}: interface ${name} has two MAC addresses`];
    return isNicMac(mac) ? [] : [`${text}: ${mac} is not the MAC address of a NIC`];
  });
}

/** Returns MACs by interface name. A MAC without a name applies to the next network, or to the pod network if there is no network. */
export function readMacs(
  values: readonly string[],
  names: readonly string[],
): ReadonlyMap<string, string> {
  const [first, ...others] = names;
  const positional = (others.length === 0 ? [first] : others)[Symbol.iterator]();
  const assigned = values.map((text) => parseNamedMac(text, () => positional.next().value));
  const problems = findMacProblems(values, assigned, names);
  if (problems.length > 0) {
    throw new AppError("FLAG_INVALID", { flag: "--mac", reason: problems.join("; ") });
  }
  return new Map(assigned.map(({ name = "", mac }) => [name, normalizeMac(mac)] as const));
}

interface NewNic {
  readonly name: string;
  readonly mac: string;
}

/** Metric of the default routes of secondary NICs. The pod network takes precedence with its metric of 1024. Source: systemd.network(5). */
const ROUTE_METRIC = 2048;

/** Creates network data with DHCP on every NIC. Matches NICs by MAC, because guests use different names. */
export function makeNetworkData(nics: readonly NewNic[]): string {
  const ethernets = nics.map(({ name, mac }, index) => {
    const isFirst = index === 0;
    const secondary = { optional: true, "dhcp4-overrides": { "route-metric": ROUTE_METRIC } };
    return [name, { match: { macaddress: mac }, dhcp4: true, ...(!isFirst && secondary) }] as const;
  });
  return stringify({ version: 2, ethernets: Object.fromEntries(ethernets) });
}

const PASSWORD_BYTES = 16;

async function readFile(files: Files, flag: string, path: string): Promise<string> {
  const text = await files.readText(resolve(path));
  if (text !== undefined) return text;
  throw new AppError("FLAG_INVALID", { flag, reason: `the file ${path} does not exist` });
}

async function readKeys(files: Files, paths: readonly string[]): Promise<readonly string[]> {
  const read = async (path: string): Promise<readonly string[]> =>
    readPublicKeys(await readFile(files, "--ssh-key", path), path);
  return (await Promise.all(paths.map(read))).flat();
}

async function readUserData(files: Files, input: Input): Promise<string> {
  const keys = await readKeys(files, listOption(input, "sshKey"));
  const path = textOption(input, "userData");
  if (path !== undefined) return addKeys(await readFile(files, "--user-data", path), keys);
  const password = makePassword(randomBytes(PASSWORD_BYTES));
  return makeUserData({ user: textOption(input, "user") ?? "", password }, keys);
}

type VmParts = Pick<NewVm, "volumes" | "rootSize" | "size" | "instancetype" | "preference">;

/** @throws AppError with FLAG_INVALID */
function readRootSize(input: Input): Pick<NewVm, "rootSize"> {
  const rootSize = textOption(input, "root");
  if (rootSize === undefined) return {};
  if (textOption(input, "image") !== undefined) return { rootSize };
  const reason = "it is the size of the claim that is filled from --image, which is missing";
  throw new AppError("FLAG_INVALID", { flag: "--root", reason });
}

/** @throws AppError with FLAG_INVALID */
function readMachine(input: Input): VmParts {
  const image = textOption(input, "image");
  const values = {
    images: listOption(input, "volumeContainerdisk"),
    claims: listOption(input, "volumePvc"),
  };
  const volumes = withBootOrder([
    ...(image === undefined ? [] : [{ name: ROOT, source: { image } }]),
    ...readVolumes(argumentAt(input, 0), values),
  ]);
  const boot = findBootVolume(volumes);
  if (boot === undefined) {
    const reason = "name a boot disk: an image, --volume-containerdisk or --volume-pvc";
    throw new AppError("FLAG_INVALID", { flag: "--image", reason });
  }
  const readPart = (part: MatcherFlag["part"], infer: string): Matcher | undefined =>
    readMatcher({ part, text: textOption(input, part), isInferred: hasFlag(input, infer), boot });
  const instancetype = readPart("instancetype", "inferInstancetype");
  const memory = textOption(input, "memory") ?? "";
  return {
    volumes,
    ...readRootSize(input),
    size: instancetype === undefined ? { memory, cpus: numberOption(input, "cpus", 1) } : undefined,
    instancetype,
    preference: readPart("preference", "inferPreference"),
  };
}

type Network = Pick<NewVm, "networks" | "macs" | "networkData">;

/** Returns a MAC for every interface. Generates the MACs that are not assigned. */
function withNewMacs(
  names: readonly string[],
  assigned: ReadonlyMap<string, string>,
): ReadonlyMap<string, string> {
  const macs = new Map(assigned);
  for (const name of names) {
    const used = new Set(macs.values());
    macs.set(name, macs.get(name) ?? chooseMac(used, randomBytes));
  }
  return macs;
}

/** Reads the network settings. Creates network data for several NICs, because cloud-init configures only the first NIC by default. */
async function readNetwork(files: Files, input: Input): Promise<Network> {
  const networks = listOption(input, "network");
  const names = ifaceNames({ networks });
  const assigned = readMacs(listOption(input, "mac"), names);
  const path = textOption(input, "networkData");
  if (path !== undefined) {
    return { networks, macs: assigned, networkData: await readFile(files, "--network-data", path) };
  }
  if (names.length === 1) return { networks, macs: assigned };
  const macs = withNewMacs(names, assigned);
  const nics = names.map((name) => ({ name, mac: macs.get(name) ?? "" }));
  return { networks, macs, networkData: makeNetworkData(nics) };
}

/** Reads all settings. Without user data, creates a user with a generated password. @throws AppError with FLAG_INVALID */
export async function readNewVm(
  files: Files,
  input: Input,
  namespace: string | undefined,
): Promise<NewVm> {
  const network = await readNetwork(files, input);
  const machine = readMachine(input);
  return {
    name: argumentAt(input, 0),
    namespace,
    ...machine,
    userData: await readUserData(files, input),
    ...network,
    disks: listOption(input, "disk"),
    isStopped: hasFlag(input, "stopped"),
  };
}
