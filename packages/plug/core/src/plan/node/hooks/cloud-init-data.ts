// SPDX-License-Identifier: Apache-2.0
// What hooks are told of cloud-init's data, what they make of it, and the files that the guest finds of that.
// Source: KubeVirt pkg/hooks manager.go PreCloudInitIso, pkg/cloud-init CloudInitData.
import {
  isJsonObject,
  parseJson,
  type JsonObject,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { CLOUD_INIT_LAYOUTS, metaDataOf } from "../../../spec/cloud-init.ts";
import { disksOf, type GivenText } from "../../../spec/disks.ts";

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
interface CloudInitAnswer {
  /** Of {@link HookedCloudInit}. */
  readonly data: string;
  /** Of the volume's member `cloudInitNoCloud`, by hooks that are older. */
  readonly noCloudSource: string;
}

/** Which member has the meta-data of a data source. */
const META_DATA = { noCloud: "NoCloudMetaData", configDrive: "ConfigDriveMetaData" } as const;

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
        UserData,
        NetworkData,
        DevicesData: null,
        VolumeName: name,
      },
    ];
  });
}

function textIn(value: JsonObject, member: string): string {
  const text = value[member];
  return typeof text === "string" ? text : "";
}

/** An answer of KubeVirt's own form, where it has what that must have; else it is looked for in the older one. */
function wholeOf(
  { DataSource }: HookedCloudInit,
  { data }: CloudInitAnswer,
): JsonObject | undefined {
  const value = parseJson(data);
  if (!isJsonObject(value) || textIn(value, "UserData") === "") return undefined;
  return isJsonObject(value[META_DATA[DataSource]]) ? value : undefined;
}

/** Of KubeVirt's own form: which data source and which disk it is stays as it was. */
function readWhole(given: HookedCloudInit, whole: JsonObject): HookedCloudInit {
  const metaData = whole[META_DATA[given.DataSource]];
  const answered = isJsonObject(metaData) ? metaData : {};
  return {
    ...given,
    [META_DATA[given.DataSource]]: answered,
    UserData: textIn(whole, "UserData"),
    NetworkData: textIn(whole, "NetworkData"),
  };
}

/**
 * The data as the hook has answered it; undefined: it is no data of cloud-init's. The meta-data of another data source than
 * the disk's makes no file, and is not read.
 */
export function answeredCloudInit(
  given: HookedCloudInit,
  answer: CloudInitAnswer,
): HookedCloudInit | undefined {
  const whole = wholeOf(given, answer);
  if (whole !== undefined) return readWhole(given, whole);
  const source = parseJson(answer.noCloudSource);
  if (!isJsonObject(source)) return undefined;
  const [UserData, NetworkData] = [textIn(source, "userData"), textIn(source, "networkData")];
  return { ...given, UserData, NetworkData };
}

/** Members of KubeVirt's that are empty make no member of a file, as theirs do not. */
function metaDataText(metaData: JsonObject | null): string {
  const members = Object.entries(metaData ?? {});
  return JSON.stringify(Object.fromEntries(members.filter(([, value]) => value !== "")));
}

/** The disk of that data: its file in the launcher's directory of disks, its label, and the texts on it by their paths. */
export function cloudInitDiskOf(data: HookedCloudInit): {
  readonly file: string;
  readonly label: string;
  readonly texts: ReadonlyMap<string, string>;
} {
  const kind = data.DataSource === "noCloud" ? "cloudInitNoCloud" : "cloudInitConfigDrive";
  const { label, ...paths } = CLOUD_INIT_LAYOUTS[kind];
  const texts = new Map([
    [paths.metaData, metaDataText(data[META_DATA[data.DataSource]])],
    [paths.userData, data.UserData],
  ]);
  if (data.NetworkData !== "") texts.set(paths.networkData, data.NetworkData);
  return { file: `${data.VolumeName}.iso`, label, texts };
}
