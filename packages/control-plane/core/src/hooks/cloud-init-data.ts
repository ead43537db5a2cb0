// SPDX-License-Identifier: Apache-2.0
// cloud-init data that hooks receive and change. Source: KubeVirt pkg/hooks manager.go, pkg/cloud-init CloudInitData.
import type { VirtualMachineInstance } from "@patchbay/api";
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";
import { CLOUD_INIT_LAYOUTS, buildMetaData } from "../vm/spec/cloud-init.ts";
import { listDisks, type TextSource } from "../vm/spec/disks.ts";

export interface HookedCloudInit {
  readonly DataSource: "noCloud" | "configDrive";
  readonly NoCloudMetaData: JsonObject | null;
  readonly ConfigDriveMetaData: JsonObject | null;
  readonly UserData: string;
  readonly NetworkData: string;
  readonly DevicesData: null;
  readonly VolumeName: string;
}

/** Answer of a hook. Each member is JSON text or empty. */
interface CloudInitAnswer {
  readonly data: string;
  /** Volume source `cloudInitNoCloud`. Hooks with an older protocol set it instead of `data`. */
  readonly noCloudSource: string;
}

const META_DATA_MEMBERS = {
  noCloud: "NoCloudMetaData",
  configDrive: "ConfigDriveMetaData",
} as const;

/** Returns the text of a source, or undefined if the source is a Secret, because nodes have no permission to read Secrets. */
type ReadText = (original: TextSource | undefined) => string | undefined;

function readWith(decode: (base64: string) => string): ReadText {
  return (original) => {
    if (original === undefined) return "";
    if (original.kind === "secret") return undefined;
    return original.kind === "base64" ? decode(original.text) : original.text;
  };
}

/** Returns one entry for each cloud-init disk. The entry is undefined if user data or network data of the disk is in a Secret. */
export function cloudInitForHooks(
  vmi: VirtualMachineInstance,
  decode: (base64: string) => string,
): readonly (HookedCloudInit | undefined)[] {
  const read = readWith(decode);
  return listDisks(vmi.spec).flatMap(({ name, source }) => {
    if (source.kind !== "cloudInitNoCloud" && source.kind !== "cloudInitConfigDrive") return [];
    const [UserData, NetworkData] = [read(source.userData), read(source.networkData)];
    if (UserData === undefined || NetworkData === undefined) return [undefined];
    const isNoCloud = source.kind === "cloudInitNoCloud";
    const metaData = buildMetaData(vmi, source.kind);
    return [
      {
        DataSource: isNoCloud ? "noCloud" : "configDrive",
        NoCloudMetaData: isNoCloud ? metaData : null,
        ConfigDriveMetaData: isNoCloud ? null : metaData,
        UserData,
        NetworkData,
        DevicesData: null,
        VolumeName: name,
      },
    ];
  });
}

function readText(value: JsonObject, member: string): string {
  const text = value[member];
  return typeof text === "string" ? text : "";
}

function parseWholeAnswer(
  { DataSource }: HookedCloudInit,
  { data }: CloudInitAnswer,
): JsonObject | undefined {
  const value = parseJson(data);
  if (!isJsonObject(value) || readText(value, "UserData") === "") return undefined;
  return isJsonObject(value[META_DATA_MEMBERS[DataSource]]) ? value : undefined;
}

function applyWholeAnswer(original: HookedCloudInit, parsed: JsonObject): HookedCloudInit {
  const metaData = parsed[META_DATA_MEMBERS[original.DataSource]];
  const newMetaData = isJsonObject(metaData) ? metaData : {};
  return {
    ...original,
    [META_DATA_MEMBERS[original.DataSource]]: newMetaData,
    UserData: readText(parsed, "UserData"),
    NetworkData: readText(parsed, "NetworkData"),
  };
}

/** Applies a hook's answer, which is in `data` or, for older hooks, in `noCloudSource`. Returns undefined if neither member is valid. */
export function applyHookAnswer(
  original: HookedCloudInit,
  answer: CloudInitAnswer,
): HookedCloudInit | undefined {
  const parsed = parseWholeAnswer(original, answer);
  if (parsed !== undefined) return applyWholeAnswer(original, parsed);
  const source = parseJson(answer.noCloudSource);
  if (!isJsonObject(source)) return undefined;
  const [UserData, NetworkData] = [readText(source, "userData"), readText(source, "networkData")];
  return { ...original, UserData, NetworkData };
}

/** Returns the meta-data as JSON. Omits empty members, as in KubeVirt. */
function printMetaData(metaData: JsonObject | null): string {
  const members = Object.entries(metaData ?? {});
  return JSON.stringify(Object.fromEntries(members.filter(([, value]) => value !== "")));
}

export function buildCloudInitDisk(data: HookedCloudInit): {
  readonly file: string;
  readonly label: string;
  readonly texts: ReadonlyMap<string, string>;
} {
  const kind = data.DataSource === "noCloud" ? "cloudInitNoCloud" : "cloudInitConfigDrive";
  const { label, ...paths } = CLOUD_INIT_LAYOUTS[kind];
  const texts = new Map([
    [paths.metaData, printMetaData(data[META_DATA_MEMBERS[data.DataSource]])],
    [paths.userData, data.UserData],
  ]);
  if (data.NetworkData !== "") texts.set(paths.networkData, data.NetworkData);
  return { file: `${data.VolumeName}.iso`, label, texts };
}
