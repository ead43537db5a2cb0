// SPDX-License-Identifier: Apache-2.0
// Settings that differ by cluster: images, the kubelet's directory, and other components that attach networks. Pure.
import { isJsonObject, names, type KubeObject } from "@patchbay/api";
import { withPodCreation } from "./pod-creation.ts";

/** Unset settings keep the values of the manifests. */
export interface InstallSettings {
  readonly image?: string;
  readonly launcherImage?: string;
  /** Default for hooks without an image. */
  readonly sidecarShimImage?: string;
  /** The kubelet's `--root-dir`, absolute. */
  readonly kubeletRootDir?: string;
  readonly mode?: string;
  /** Group ID of vhost-user dataplanes that do not run as root; 0 if they do. */
  readonly dataplaneGroup?: number;
  /** Whether net-agent creates all networks of a pod, as the CNI plugin of the runtimes. */
  readonly podCreation?: boolean;
}

export const SETTING_FLAGS = {
  launcherImage: "--launcher-image=",
  sidecarShimImage: "--sidecar-shim-image=",
  mode: "--mode=",
  dataplaneGroup: "--dataplane-group=",
} as const;
const KUBELET_DIR = "/var/lib/kubelet";
/** The directory of device plugins is fixed. Source: kubelet getPodsDir, getPodResourcesDir */
const KUBELET_SUBDIRECTORIES: readonly string[] = [
  `${KUBELET_DIR}/pods`,
  `${KUBELET_DIR}/pod-resources`,
];

/** Replaces each string; `change` also gets the name of its member. */
function mapTexts(value: unknown, change: (text: string, member: string) => string): unknown {
  const map = (inner: unknown, member: string): unknown => {
    if (typeof inner === "string") return change(inner, member);
    if (Array.isArray(inner)) return inner.map((one) => map(one, member));
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
    // Only the host's path; the path in the pod stays.
    const isOwn = member === "path" && KUBELET_SUBDIRECTORIES.includes(text);
    return isOwn
      ? `${kubeletRootDir.replace(/(?<!\/)\/+$/, "")}${text.slice(KUBELET_DIR.length)}`
      : text;
  };
  const all = settings.podCreation === true ? withPodCreation(objects) : objects;
  return all.map((object) =>
    // Strings replace strings.
    isWorkload(object) ? (mapTexts(object, change) as KubeObject) : object,
  );
}
