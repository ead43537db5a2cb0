// SPDX-License-Identifier: Apache-2.0
// Reads the settings of a new VM (disks, size, logins, MAC addresses) from the flags of `create vm` and the named files.
import type { Matcher } from "@patchbay/api";
import { isNicMac, normalizeMac } from "@patchbay/api/values";
import { AppError } from "@patchbay/base";
import { randomBytes } from "node:crypto";
import { resolve } from "node:path";
import type { Files } from "@patchbay/core/interfaces";
import {
  findNewVmProblems,
  ifaceNames,
  makeNetwork,
  makePassword,
  makeUserData,
  ROOT,
  type NewVm,
  type NewVmProblem,
} from "@patchbay/core/new-vm";
import { addKeys, readPublicKeys } from "../../cloud-init/user-data.ts";
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
  VOLUME_FLAGS,
  type MatcherFlag,
} from "./virtctl-flags.ts";

interface NamedMac {
  readonly name: string | undefined;
  readonly mac: string;
}

/** Parses `NAME=MAC`, or a MAC without a name. `next` returns the interface name for a MAC without a name. */
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

/**
 * Returns MACs by interface name. MACs without a name are assigned to the interfaces of `--network` in order, or to the
 * interface on the pod network if there is no `--network`. `names` begins with the interface on the pod network.
 */
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
  const password = makePassword(randomBytes);
  return makeUserData({ user: textOption(input, "user") ?? "", password }, keys);
}

type VmParts = Pick<NewVm, "volumes" | "rootSize" | "size" | "instancetype" | "preference">;

function readRootSize(input: Input): Pick<NewVm, "rootSize"> {
  const rootSize = textOption(input, "root");
  if (rootSize === undefined) return {};
  if (textOption(input, "image") !== undefined) return { rootSize };
  const reason = "it is the size of the claim that is filled from --image, which is missing";
  throw new AppError("FLAG_INVALID", { flag: "--root", reason });
}

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

async function readNetwork(files: Files, input: Input): Promise<Network> {
  const networks = listOption(input, "network");
  const names = ifaceNames({ networks });
  const assigned = readMacs(listOption(input, "mac"), names);
  const path = textOption(input, "networkData");
  if (path !== undefined) {
    return { networks, macs: assigned, networkData: await readFile(files, "--network-data", path) };
  }
  return makeNetwork(networks, assigned, randomBytes);
}

const PROBLEMS: Readonly<
  Record<NewVmProblem["field"], (name: string) => readonly [string, string]>
> = {
  volumes: (name) => [
    VOLUME_FLAGS,
    `two disks would be named ${name}; set another name with name:…`,
  ],
  networks: (name) => [
    "--network",
    `two interfaces would be named ${name}; add one of them later with: patchbay addinterface`,
  ],
};

/** @throws AppError with FLAG_INVALID if two disks or two interfaces would have the same name */
export function checkNewVm(newVm: NewVm): NewVm {
  const [problem] = findNewVmProblems(newVm);
  if (problem === undefined) return newVm;
  const [flag, reason] = PROBLEMS[problem.field](problem.name);
  throw new AppError("FLAG_INVALID", { flag, reason });
}

/** Reads all settings of a new VM. Without user data, creates a user with a generated password. @throws AppError with FLAG_INVALID */
export async function readNewVm(
  files: Files,
  input: Input,
  namespace: string | undefined,
): Promise<NewVm> {
  const network = await readNetwork(files, input);
  const machine = readMachine(input);
  return checkNewVm({
    name: argumentAt(input, 0),
    namespace,
    ...machine,
    userData: await readUserData(files, input),
    ...network,
    disks: listOption(input, "disk"),
    isStopped: hasFlag(input, "stopped"),
  });
}
