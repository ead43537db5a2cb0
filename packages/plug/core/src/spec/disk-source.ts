// SPDX-License-Identifier: Apache-2.0
// Where the data of a disk comes from: a volume, read as one of a closed set of kinds.
import { parseQuantity, type DownwardFile, type Volume } from "@patchbay/api";

/** Text that a VM says itself, or that a Secret holds. */
export type GivenText =
  | { readonly kind: "inline"; readonly text: string }
  | { readonly kind: "base64"; readonly text: string }
  | { readonly kind: "secret"; readonly name: string };

/** What cloud-init is given. */
export interface CloudInitData {
  readonly userData: GivenText | undefined;
  readonly networkData: GivenText | undefined;
}

/** Files that become a small disk with this label; undefined: the label of its kind. */
interface SmallDisk {
  readonly label: string | undefined;
}

/** Where a disk's data comes from, by the volume's member. */
export type DiskSource =
  | {
      readonly kind: "containerDisk";
      readonly image: string;
      /** In the image, as the VM says it; undefined: the first file below `/disk`. */
      readonly path: string | undefined;
      /** As the VM says it. */
      readonly pullPolicy: string | undefined;
      readonly pullSecret: string | undefined;
    }
  | {
      readonly kind: "persistentVolumeClaim";
      readonly claimName: string;
      readonly readOnly: boolean;
    }
  | { readonly kind: "dataVolume"; readonly claimName: string; readonly readOnly: boolean }
  | { readonly kind: "ephemeral"; readonly claimName: string; readonly readOnly: boolean }
  | { readonly kind: "emptyDisk"; readonly bytes: number }
  | {
      readonly kind: "hostDisk";
      /** Of the file on the node. */
      readonly path: string;
      /** Whether it is made where it is not there. */
      readonly isMade: boolean;
      /** Of a file that is made. */
      readonly bytes: number | undefined;
      readonly shared: boolean;
    }
  | ({ readonly kind: "cloudInitNoCloud" } & CloudInitData)
  | ({ readonly kind: "cloudInitConfigDrive" } & CloudInitData)
  | ({ readonly kind: "configMap"; readonly name: string; readonly optional: boolean } & SmallDisk)
  | ({ readonly kind: "secret"; readonly name: string; readonly optional: boolean } & SmallDisk)
  | ({ readonly kind: "downwardAPI"; readonly files: readonly DownwardFile[] } & SmallDisk);

/** The name of a kind of source. */
export type DiskSourceKind = DiskSource["kind"];

/** Empty means the same as absent. */
function given(text: string | undefined): string | undefined {
  return text === "" ? undefined : text;
}

type CloudInitVolume = NonNullable<Volume["cloudInitNoCloud"]>;

function givenText(
  text: string | undefined,
  base64: string | undefined,
  secret: { readonly name?: string } | undefined,
): GivenText | undefined {
  const name = given(secret?.name);
  if (name !== undefined) return { kind: "secret", name };
  if (given(base64) !== undefined) return { kind: "base64", text: base64 ?? "" };
  return given(text) === undefined ? undefined : { kind: "inline", text: text ?? "" };
}

/** Where data is given in more than one form, which admission refuses: the Secret's, then base64. */
function cloudInitOf(volume: CloudInitVolume): CloudInitData {
  return {
    userData: givenText(volume.userData, volume.userDataBase64, volume.secretRef),
    networkData: givenText(
      volume.networkData,
      volume.networkDataBase64,
      volume.networkDataSecretRef,
    ),
  };
}

/** How each member of a volume is read, in the order in which they are looked for. */
const READERS: {
  readonly [K in DiskSourceKind]: (
    member: NonNullable<Volume[K]>,
  ) => Extract<DiskSource, { readonly kind: K }> | undefined;
} = {
  containerDisk: ({ image, path, imagePullPolicy, imagePullSecret }) => ({
    kind: "containerDisk",
    image,
    path: given(path),
    pullPolicy: given(imagePullPolicy),
    pullSecret: given(imagePullSecret),
  }),
  persistentVolumeClaim: ({ claimName, readOnly }) => ({
    kind: "persistentVolumeClaim",
    claimName,
    readOnly: readOnly === true,
  }),
  dataVolume: ({ name }) => ({ kind: "dataVolume", claimName: name, readOnly: false }),
  ephemeral: ({ persistentVolumeClaim: claim }) =>
    claim === undefined
      ? undefined
      : { kind: "ephemeral", claimName: claim.claimName, readOnly: claim.readOnly === true },
  // What cannot be read keeps the VM from being started.
  emptyDisk: ({ capacity }) => ({ kind: "emptyDisk", bytes: parseQuantity(capacity) ?? 0 }),
  hostDisk: ({ path, type, capacity, shared }) => ({
    kind: "hostDisk",
    path,
    isMade: type === "DiskOrCreate",
    bytes: capacity === undefined ? undefined : parseQuantity(capacity),
    shared: shared === true,
  }),
  cloudInitNoCloud: (member) => ({ kind: "cloudInitNoCloud", ...cloudInitOf(member) }),
  cloudInitConfigDrive: (member) => ({ kind: "cloudInitConfigDrive", ...cloudInitOf(member) }),
  configMap: ({ name = "", optional, volumeLabel }) => ({
    kind: "configMap",
    name,
    optional: optional === true,
    label: given(volumeLabel),
  }),
  secret: ({ secretName = "", optional, volumeLabel }) => ({
    kind: "secret",
    name: secretName,
    optional: optional === true,
    label: given(volumeLabel),
  }),
  downwardAPI: ({ fields = [], volumeLabel }) => ({
    kind: "downwardAPI",
    files: fields,
    label: given(volumeLabel),
  }),
};

// The keys are those that the type lists, and only they.
const KINDS = Object.keys(READERS) as readonly DiskSourceKind[];

function readAs(kind: DiskSourceKind, volume: Volume): DiskSource | undefined {
  // Each reader takes the member of its own key, which the compiler cannot follow through a variable key.
  const read = READERS[kind] as (member: unknown) => DiskSource | undefined;
  const member = volume[kind];
  return member === undefined ? undefined : read(member);
}

/** Where the data of a volume comes from; undefined for a volume of no kind, or of one that no disk is made of. */
export function sourceOf(volume: Volume): DiskSource | undefined {
  for (const kind of KINDS) {
    const source = readAs(kind, volume);
    if (source !== undefined) return source;
  }
  return undefined;
}

/** The claim of a source; undefined for one without. */
export function claimNameOf(source: DiskSource): string | undefined {
  return "claimName" in source ? source.claimName : undefined;
}
