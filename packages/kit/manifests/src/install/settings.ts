// SPDX-License-Identifier: Apache-2.0
// What differs from cluster to cluster: names of images, where the kubelet keeps pods, who else attaches networks. Pure.
import { isJsonObject, names, type KubeObject } from "@patchbay/api";
import { withPodCreation } from "./pod-creation.ts";

/** What may be asked for; what is absent stays as the manifests have it. */
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

const LAUNCHER_FLAG = "--launcher-image=";
const SHIM_FLAG = "--sidecar-shim-image=";
const MODE_FLAG = "--mode=";
const DATAPLANE_FLAG = "--dataplane-group=";
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

/** The objects as that cluster needs them. */
export function withSettings(
  objects: readonly KubeObject[],
  settings: InstallSettings,
): readonly KubeObject[] {
  const { image, launcherImage, sidecarShimImage, kubeletRootDir = KUBELET_DIR, mode } = settings;
  const flags: readonly (readonly [string, string | undefined])[] = [
    [LAUNCHER_FLAG, launcherImage],
    [SHIM_FLAG, sidecarShimImage],
    [MODE_FLAG, mode],
    [DATAPLANE_FLAG, settings.dataplaneGroup?.toString()],
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
  return all.map((object) => {
    const isWorkload = object.kind === "Deployment" || object.kind === "DaemonSet";
    // Texts take the place of texts.
    return isWorkload ? (mapTexts(object, change) as KubeObject) : object;
  });
}
