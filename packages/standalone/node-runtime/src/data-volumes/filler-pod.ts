// SPDX-License-Identifier: Apache-2.0
// Builds the pod that fills a claim. The pod runs prepare-disks from the launcher image as the launchers' user.
import { apiVersionOf, DATA_VOLUMES, names, type DataVolume } from "@patchbay/api";
import type {
  Container,
  KubeObject,
  ObjectMeta,
  Pod,
  PodVolume,
  VolumeMode,
} from "@patchbay/api/kubernetes";
import { parseQuantity } from "@patchbay/api/values";
import type { FillOrder } from "@patchbay/core/vm";

/** Label of a filler pod. Its value is the uid of the DataVolume. */
export const FILLS_LABEL = "patchbay.io/fills";
export const FILL_CONTAINER = "fill";
const BYTES_PER_MIB = 2 ** 20;
const SOURCE_DIR = "/run/volumes/source";
const TARGET_DIR = "/run/volumes/target";
const SCRATCH_DIR = "/run/volumes/scratch";
/** Scratch space for the metadata of qcow2 files, in addition to the disk's size, in MiB. */
const FORMAT_MIB = 64;
const TMP_MIB = 16;
const LIMITS = { cpu: "1", memory: "512Mi" };
const REQUESTS = { cpu: "10m", memory: "64Mi" };

interface VolumePart {
  readonly volumes: readonly PodVolume[];
  readonly mounts: NonNullable<Container["volumeMounts"]>;
  readonly devices: NonNullable<Container["volumeDevices"]>;
  readonly path: string;
}

export interface FillerFacts {
  readonly order: FillOrder;
  readonly sourceMode: VolumeMode;
}

/** Derives the name from the DataVolume's uid, so that creating a second pod for the DataVolume fails with AlreadyExists. */
export function buildFillerPodName({ metadata }: DataVolume): string {
  return `fill-${metadata.uid ?? ""}`;
}

export function buildOwnerReferences({
  metadata,
}: DataVolume): Pick<ObjectMeta, "ownerReferences"> {
  const { name, uid = "" } = metadata;
  const type = { apiVersion: apiVersionOf(DATA_VOLUMES), kind: DATA_VOLUMES.kind };
  return { ownerReferences: [{ ...type, name, uid, controller: true }] };
}

export function isOwnedBy({ metadata }: KubeObject, owner: DataVolume): boolean {
  return metadata.ownerReferences?.some(({ uid }) => uid === owner.metadata.uid) === true;
}

function parseSizeBytes({ size }: FillOrder): number {
  return Math.floor(parseQuantity(size) ?? 0);
}

function buildClaimPart(
  name: "source" | "target",
  claimName: string,
  mode: VolumeMode,
): VolumePart {
  const readOnly = name === "source" ? { readOnly: true } : {};
  const volumes = [{ name, persistentVolumeClaim: { claimName, ...readOnly } }];
  const directory = name === "source" ? SOURCE_DIR : TARGET_DIR;
  if (mode === "Block") {
    const devicePath = `/dev/${name}`;
    return { volumes, mounts: [], devices: [{ name, devicePath }], path: devicePath };
  }
  const mounts = [{ name, mountPath: directory, ...readOnly }];
  return { volumes, mounts, devices: [], path: `${directory}/disk.img` };
}

function computeScratchMiB(order: FillOrder): number {
  return order.source.kind === "http"
    ? Math.ceil(parseSizeBytes(order) / BYTES_PER_MIB) + FORMAT_MIB
    : 0;
}

function buildSourcePart({ order, sourceMode }: FillerFacts): VolumePart {
  const { source } = order;
  switch (source.kind) {
    case "pvc":
      return buildClaimPart("source", source.claimName, sourceMode);
    case "registry":
      return {
        // `Always` would fail for images that a user added to the machine, because no registry serves these images.
        volumes: [
          { name: "source", image: { reference: source.image, pullPolicy: "IfNotPresent" } },
        ],
        mounts: [{ name: "source", mountPath: SOURCE_DIR, readOnly: true }],
        devices: [],
        path: `${SOURCE_DIR}/disk`,
      };
    case "http": {
      const sizeLimit = `${String(computeScratchMiB(order))}Mi`;
      return {
        volumes: [{ name: "scratch", emptyDir: { sizeLimit } }],
        mounts: [{ name: "scratch", mountPath: SCRATCH_DIR }],
        devices: [],
        path: source.url,
      };
    }
  }
}

/** Doubles each `$`, because Kubernetes would otherwise expand `$(NAME)` in arguments. */
function escapeReferences(text: string): string {
  return text.replaceAll("$", "$$$$");
}

function buildContainer(
  { metadata }: DataVolume,
  { order }: FillerFacts,
  { source, target }: { readonly source: VolumePart; readonly target: VolumePart },
): Container {
  const scratch = order.source.kind === "http" ? [SCRATCH_DIR] : [];
  const fillArgs = ["fill", metadata.name, target.path, source.path, String(parseSizeBytes(order))];
  const devices = [...source.devices, ...target.devices];
  const disk = { "ephemeral-storage": `${String(TMP_MIB + computeScratchMiB(order))}Mi` };
  return {
    name: FILL_CONTAINER,
    image: names.LAUNCHER_IMAGE,
    imagePullPolicy: "IfNotPresent",
    command: ["/usr/bin/prepare-disks"],
    args: [...fillArgs, ...scratch].map(escapeReferences),
    terminationMessagePolicy: "FallbackToLogsOnError",
    resources: { requests: { ...REQUESTS, ...disk }, limits: { ...LIMITS, ...disk } },
    securityContext: {
      runAsUser: names.LAUNCHER_UID,
      runAsGroup: names.LAUNCHER_UID,
      runAsNonRoot: true,
      readOnlyRootFilesystem: true,
      allowPrivilegeEscalation: false,
      capabilities: { drop: ["ALL"] },
    },
    volumeMounts: [{ name: "tmp", mountPath: "/tmp" }, ...source.mounts, ...target.mounts],
    ...(devices.length === 0 ? {} : { volumeDevices: devices }),
  };
}

export function buildFillerPod(dataVolume: DataVolume, facts: FillerFacts): Pod {
  const { name, namespace = "", uid = "" } = dataVolume.metadata;
  const user = names.LAUNCHER_UID;
  const source = buildSourcePart(facts);
  const target = buildClaimPart("target", name, facts.order.volumeMode);
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: buildFillerPodName(dataVolume),
      namespace,
      labels: { [FILLS_LABEL]: uid },
      ...buildOwnerReferences(dataVolume),
    },
    spec: {
      restartPolicy: "OnFailure",
      terminationGracePeriodSeconds: 1,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      securityContext: {
        runAsUser: user,
        runAsGroup: user,
        fsGroup: user,
        runAsNonRoot: true,
        seccompProfile: { type: "RuntimeDefault" },
      },
      containers: [buildContainer(dataVolume, facts, { source, target })],
      volumes: [
        { name: "tmp", emptyDir: { sizeLimit: `${String(TMP_MIB)}Mi` } },
        ...source.volumes,
        ...target.volumes,
      ],
    },
  };
}
