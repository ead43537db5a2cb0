// SPDX-License-Identifier: Apache-2.0
// What hooks are told of cloud-init's data, and whether their answer is another. The disk is made before any hook runs, so
// that an answer that changes nothing is taken, and every other one is refused.
// Source: KubeVirt pkg/hooks manager.go PreCloudInitIso, pkg/cloud-init CloudInitData.
import {
  isJsonObject,
  parseJson,
  type JsonObject,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { metaDataOf } from "../../../spec/cloud-init-meta.ts";
import { disksOf } from "../../../spec/disks.ts";
import type { GivenText } from "../../../spec/disk-source.ts";

/** cloud-init's data of one disk, as hooks are told; members are KubeVirt's. */
export interface HookedCloudInit {
  readonly DataSource: "noCloud" | "configDrive";
  readonly NoCloudMetaData: JsonObject | null;
  readonly ConfigDriveMetaData: JsonObject | null;
  readonly UserData: string;
  readonly NetworkData: string;
  readonly DevicesData: null;
  readonly VolumeName: string;
}

/** What a hook has answered; each is JSON, or nothing. */
export interface CloudInitAnswer {
  /** Of {@link HookedCloudInit}. */
  readonly data: string;
  /** Of the volume's member `cloudInitNoCloud`, by hooks that are older. */
  readonly noCloudSource: string;
}

/** Undefined: only a Secret says it, which no node reads. */
type ReadText = (given: GivenText | undefined) => string | undefined;

function readWith(decode: (base64: string) => string): ReadText {
  return (given) => {
    if (given === undefined) return "";
    if (given.kind === "secret") return undefined;
    return given.kind === "base64" ? decode(given.text) : given.text;
  };
}

/**
 * The data of each disk of cloud-init's; undefined in the place of one of which a Secret says some. `decode` makes text of
 * base64.
 */
export function hookedCloudInitOf(
  vmi: VirtualMachineInstance,
  decode: (base64: string) => string,
): readonly (HookedCloudInit | undefined)[] {
  const read = readWith(decode);
  return disksOf(vmi.spec).flatMap(({ name, source }) => {
    if (source.kind !== "cloudInitNoCloud" && source.kind !== "cloudInitConfigDrive") return [];
    const [UserData, NetworkData] = [read(source.userData), read(source.networkData)];
    if (UserData === undefined || NetworkData === undefined) return [undefined];
    const isNoCloud = source.kind === "cloudInitNoCloud";
    const metaData = metaDataOf(vmi, source.kind);
    return [
      {
        DataSource: isNoCloud ? "noCloud" : "configDrive",
        NoCloudMetaData: isNoCloud ? metaData : null,
        ConfigDriveMetaData: isNoCloud ? null : metaData,
        ...{ UserData, NetworkData, DevicesData: null, VolumeName: name },
      },
    ];
  });
}

function textIn(value: JsonObject, member: string): string {
  const text = value[member];
  return typeof text === "string" ? text : "";
}

/** Both are flat; what is absent is as good as empty. */
function isSameMetaData(given: JsonObject | null, answered: unknown): boolean {
  const [one, other] = [given ?? {}, isJsonObject(answered) ? answered : {}];
  return Object.keys({ ...one, ...other }).every((key) => (one[key] ?? "") === (other[key] ?? ""));
}

/** An answer of KubeVirt's own form, where it has what that must have; else it is looked for in the older one. */
function wholeOf({ data }: CloudInitAnswer): JsonObject | undefined {
  const value = parseJson(data);
  if (!isJsonObject(value) || textIn(value, "UserData") === "") return undefined;
  const hasMetaData =
    isJsonObject(value["NoCloudMetaData"]) || isJsonObject(value["ConfigDriveMetaData"]);
  return hasMetaData ? value : undefined;
}

/**
 * The members that the answer has otherwise than what was given; undefined: it is no data of cloud-init's. What they say is
 * not told: passwords are among it.
 */
export function cloudInitChanges(
  given: HookedCloudInit,
  answer: CloudInitAnswer,
): readonly string[] | undefined {
  const whole = wholeOf(answer);
  if (whole !== undefined) {
    return [
      ...(["UserData", "NetworkData"] as const).filter(
        (member) => given[member] !== textIn(whole, member),
      ),
      ...(["NoCloudMetaData", "ConfigDriveMetaData"] as const).filter(
        (member) => !isSameMetaData(given[member], whole[member]),
      ),
    ];
  }
  const source = parseJson(answer.noCloudSource);
  if (!isJsonObject(source)) return undefined;
  const pairs = [
    ["UserData", "userData"],
    ["NetworkData", "networkData"],
  ] as const;
  return pairs
    .filter(([member, name]) => given[member] !== textIn(source, name))
    .map(([, name]) => name);
}
