// SPDX-License-Identifier: Apache-2.0
// Parses virtctl's flags of `create vm`: `src:…,name:…,bootorder:…` and `KIND/NAME`. Source: KubeVirt pkg/virtctl/create/vm.
import type { Matcher } from "@patchbay/api";
import { AppError } from "@patchbay/base";
import type { NewVolume } from "@patchbay/core/new-vm";

export const VOLUME_FLAGS = "--volume-containerdisk, --volume-pvc";
const PARAMETERS = ["src", "name", "bootorder"] as const;
type Parameter = (typeof PARAMETERS)[number];

function flagError(flag: string, reason: string): AppError {
  return new AppError("FLAG_INVALID", { flag, reason });
}

function isParameter(text: string): text is Parameter {
  return PARAMETERS.some((parameter) => parameter === text);
}

function readParameters(flag: string, text: string): Readonly<Partial<Record<Parameter, string>>> {
  const parameters: Partial<Record<Parameter, string>> = {};
  for (const pair of text.split(",")) {
    const [parameter = "", ...rest] = pair.split(":");
    const value = rest.join(":");
    if (!isParameter(parameter) || value === "")
      throw flagError(
        flag,
        `"${pair}" is none of ${PARAMETERS.map((parameter) => `${parameter}:…`).join(", ")}`,
      );
    if (parameters[parameter] !== undefined) throw flagError(flag, `${parameter} is set twice`);
    parameters[parameter] = value;
  }
  return parameters;
}

function readBootOrder(flag: string, text: string): number {
  if (/^[1-9]\d{0,3}$/.test(text)) return Number(text);
  throw flagError(flag, `bootorder must be a number of at least 1, not ${text}`);
}

/** Flag for disks. Its functions return the default name and the volume source of a disk. */
interface VolumeFlag {
  readonly flag: string;
  readonly toName: (source: string, index: number) => string;
  readonly toSource: (source: string) => NewVolume["source"];
}

function readVolume(
  { flag, toName, toSource }: VolumeFlag,
  text: string,
  index: number,
): NewVolume {
  const { src, name, bootorder } = readParameters(flag, text);
  if (src === undefined) throw flagError(flag, "src must be specified");
  return {
    name: name ?? toName(src, index),
    source: toSource(src),
    ...(bootorder === undefined ? {} : { bootOrder: readBootOrder(flag, bootorder) }),
  };
}

function toClaim(source: string): NewVolume["source"] {
  if (!source.includes("/")) return { claim: source };
  throw flagError(
    "--volume-pvc",
    `${source} names a namespace; the claim must be in the VM's namespace`,
  );
}

/** Reads the disks of `--volume-containerdisk` and `--volume-pvc`. @throws AppError with FLAG_INVALID */
export function readVolumes(
  vm: string,
  texts: { readonly images: readonly string[]; readonly claims: readonly string[] },
): readonly NewVolume[] {
  const images: VolumeFlag = {
    flag: "--volume-containerdisk",
    toName: (_, index) => `${vm}-containerdisk-${String(index)}`,
    toSource: (image) => ({ image }),
  };
  const claims: VolumeFlag = { flag: "--volume-pvc", toName: (name) => name, toSource: toClaim };
  return [
    ...texts.images.map((text, index) => readVolume(images, text, index)),
    ...texts.claims.map((text, index) => readVolume(claims, text, index)),
  ];
}

/** Makes the first disk the boot disk if no disk has a boot order. @throws AppError with FLAG_INVALID if two disks have the same order */
export function withBootOrder(volumes: readonly NewVolume[]): readonly NewVolume[] {
  const orders = volumes.flatMap(({ bootOrder }) => bootOrder ?? []);
  const duplicate = orders.find((order, index) => orders.indexOf(order) !== index);
  if (duplicate !== undefined)
    throw flagError(VOLUME_FLAGS, `bootorder ${String(duplicate)} was specified multiple times`);
  if (orders.length > 0) return volumes;
  return volumes.map((volume, index) => (index === 0 ? { ...volume, bootOrder: 1 } : volume));
}

export function findBootVolume(volumes: readonly NewVolume[]): NewVolume | undefined {
  return [...volumes].sort(
    (a, b) => (a.bootOrder ?? Number.MAX_VALUE) - (b.bootOrder ?? Number.MAX_VALUE),
  )[0];
}

export interface MatcherFlag {
  readonly part: "instancetype" | "preference";
  /** Instancetype or preference as `[KIND/]NAME`. */
  readonly text: string | undefined;
  readonly isInferred: boolean;
  readonly boot: NewVolume | undefined;
}

function readPartName(part: MatcherFlag["part"], text: string): Matcher {
  const kinds = [`virtualmachine${part}`, `virtualmachinecluster${part}`];
  const [name = "", kind, ...more] = text.split("/").reverse();
  const isKnown = kind === undefined || kinds.includes(kind);
  if (name !== "" && isKnown && more.length === 0)
    return { name, ...(kind === undefined ? {} : { kind }) };
  throw flagError(`--${part}`, `it must be NAME or KIND/NAME, KIND one of ${kinds.join(", ")}`);
}

/** Returns `spec.instancetype` or `spec.preference`. Returns undefined if no flag sets it. @throws AppError with FLAG_INVALID */
export function readMatcher({ part, text, isInferred, boot }: MatcherFlag): Matcher | undefined {
  if (!isInferred) return text === undefined ? undefined : readPartName(part, text);
  if (boot !== undefined && "claim" in boot.source) return { inferFromVolume: boot.name };
  throw flagError(`--infer-${part}`, "the boot disk must be a claim, because its labels are read");
}
