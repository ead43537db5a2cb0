// SPDX-License-Identifier: Apache-2.0
// What differs from cluster to cluster: names of images, where the kubelet keeps pods, who else attaches networks. Pure.
import { isJsonObject, names, type KubeObject } from "@patchbay/api";
import { withPodCreation } from "./pod-creation.ts";

/** What may be asked for; what is absent is as the manifests have it. */
export interface InstallSettings {
  /** Image of all services and agents. */
  readonly image?: string;
  readonly launcherImage?: string;
  /** Of hooks that name none. */
  readonly sidecarShimImage?: string;
  /** The kubelets' `--root-dir`, absolute. */
  readonly kubeletRootDir?: string;
  /** Who attaches networks beside net-agent, as its flag `--mode` has it. */
  readonly mode?: string;
  /** Number of the group of dataplanes of vhost-user that are not root; 0: they are. */
  readonly dataplaneGroup?: number;
  /** Whether net-agent makes all networks of a pod when it is created, as the plugin of the nodes' runtimes. */
  readonly podCreation?: boolean;
}

/** The argument of a service or agent that has a setting. */
export const FLAGS_OF_SETTINGS = {
  launcherImage: "--launcher-image=",
  sidecarShimImage: "--sidecar-shim-image=",
  mode: "--mode=",
  dataplaneGroup: "--dataplane-group=",
} as const;
const KUBELET_DIR = "/var/lib/kubelet";
/** What kubelets keep below their root directory; device plugins have one place for all. Source: kubelet getPodsDir, getPodResourcesDir. */
const KUBELETS_OWN: readonly string[] = [`${KUBELET_DIR}/pods`, `${KUBELET_DIR}/pod-resources`];

/** Each text of a value, replaced by what `change` makes of it and of the member that it is. */
function mapTexts(value: unknown, change: (text: string, member: string) => string): unknown {
  const map = (inner: unknown, member: string): unknown => {
    if (typeof inner === "string") return change(inner, member);
    if (Array.isArray(inner)) return inner.map((one) => map(one, member));
    if (!isJsonObject(inner)) return inner;
    return Object.fromEntries(Object.entries(inner).map(([name, one]) => [name, map(one, name)]));
  };
  return map(value, "");
}

/** Whether the object makes pods. */
export function isWorkload({ kind }: KubeObject): boolean {
  return kind === "Deployment" || kind === "DaemonSet";
}

/** The objects as that cluster needs them. */
export function withSettings(
  objects: readonly KubeObject[],
  settings: InstallSettings,
): readonly KubeObject[] {
  const { image, launcherImage, sidecarShimImage, kubeletRootDir = KUBELET_DIR, mode } = settings;
  const flags: readonly (readonly [string, string | undefined])[] = [
    [FLAGS_OF_SETTINGS.launcherImage, launcherImage],
    [FLAGS_OF_SETTINGS.sidecarShimImage, sidecarShimImage],
    [FLAGS_OF_SETTINGS.mode, mode],
    [FLAGS_OF_SETTINGS.dataplaneGroup, settings.dataplaneGroup?.toString()],
  ];
  const changeArgument = (text: string): string => {
    const [flag, value] = flags.find(([name]) => text.startsWith(name)) ?? [];
    return flag === undefined || value === undefined ? text : `${flag}${value}`;
  };
  const change = (text: string, member: string): string => {
    if (member === "image" && text === names.PATCHBAY_IMAGE) return image ?? text;
    if (member === "args") return changeArgument(text);
    // Only where it is on the host: in the agents' pods it stays where it is.
    const isOwn = member === "path" && KUBELETS_OWN.includes(text);
    return isOwn
      ? `${kubeletRootDir.replace(/(?<!\/)\/+$/, "")}${text.slice(KUBELET_DIR.length)}`
      : text;
  };
  const all = settings.podCreation === true ? withPodCreation(objects) : objects;
  return all.map((object) =>
    // Texts take the place of texts.
    isWorkload(object) ? (mapTexts(object, change) as KubeObject) : object,
  );
}
