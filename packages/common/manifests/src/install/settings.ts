// SPDX-License-Identifier: Apache-2.0
// Settings that differ by cluster: images, the kubelet's directory, and components that attach networks.
import { names } from "@patchbay/api";
import { isJsonObject } from "@patchbay/api/json";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { withPodCreation } from "./pod-creation.ts";

/** Settings of an installation. An unset setting has the value in the manifests. */
export interface InstallSettings {
  readonly image?: string;
  readonly launcherImage?: string;
  /** Image of hook sidecars that specify no image. */
  readonly sidecarShimImage?: string;
  /** Absolute path of the kubelet's `--root-dir`. */
  readonly kubeletRootDir?: string;
  readonly mode?: string;
  /** GID of vhost-user dataplanes; 0 if they run as root. */
  readonly dataplaneGroup?: number;
  /** Whether net-agent is the container runtimes' CNI plugin and attaches pods to all their networks. */
  readonly podCreation?: boolean;
}

export const SETTING_FLAGS = {
  launcherImage: "--launcher-image=",
  sidecarShimImage: "--sidecar-shim-image=",
  mode: "--mode=",
  dataplaneGroup: "--dataplane-group=",
} as const;
const KUBELET_DIR = "/var/lib/kubelet";
/** Directories below the kubelet's default root directory. Source: getPodsDir and getPodResourcesDir of the kubelet. */
const KUBELET_SUBDIRECTORIES: readonly string[] = [
  `${KUBELET_DIR}/pods`,
  `${KUBELET_DIR}/pod-resources`,
];

function mapTexts(value: unknown, change: (text: string, member: string) => string): unknown {
  const map = (inner: unknown, member: string): unknown => {
    if (typeof inner === "string") return change(inner, member);
    if (Array.isArray(inner)) return inner.map((item) => map(item, member));
    if (!isJsonObject(inner)) return inner;
    return Object.fromEntries(Object.entries(inner).map(([name, one]) => [name, map(one, name)]));
  };
  return map(value, "");
}

export function isWorkload({ kind }: KubeObject): boolean {
  return kind === "Deployment" || kind === "DaemonSet";
}

export function withSettings(
  objects: readonly KubeObject[],
  settings: InstallSettings,
): readonly KubeObject[] {
  const { image, launcherImage, sidecarShimImage, kubeletRootDir = KUBELET_DIR, mode } = settings;
  const flags: readonly (readonly [string, string | undefined])[] = [
    [SETTING_FLAGS.launcherImage, launcherImage],
    [SETTING_FLAGS.sidecarShimImage, sidecarShimImage],
    [SETTING_FLAGS.mode, mode],
    [SETTING_FLAGS.dataplaneGroup, settings.dataplaneGroup?.toString()],
  ];
  const changeArgument = (text: string): string => {
    const [flag, value] = flags.find(([name]) => text.startsWith(name)) ?? [];
    return flag === undefined || value === undefined ? text : `${flag}${value}`;
  };
  const change = (text: string, member: string): string => {
    if (member === "image" && text === names.PATCHBAY_IMAGE) return image ?? text;
    if (member === "args") return changeArgument(text);
    // Applies `kubeletRootDir` to `path` of hostPath volumes, but not to `mountPath`: inside the containers, the kubelet's directories keep
    // their default paths.
    const isOwn = member === "path" && KUBELET_SUBDIRECTORIES.includes(text);
    return isOwn
      ? `${kubeletRootDir.replace(/(?<!\/)\/+$/, "")}${text.slice(KUBELET_DIR.length)}`
      : text;
  };
  const all = settings.podCreation === true ? withPodCreation(objects) : objects;
  return all.map((object) =>
    // The cast is safe, because strings replace strings.
    isWorkload(object) ? (mapTexts(object, change) as KubeObject) : object,
  );
}
