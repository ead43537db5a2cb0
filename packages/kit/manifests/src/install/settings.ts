// SPDX-License-Identifier: Apache-2.0
// What differs from cluster to cluster: names of images, and where the kubelet keeps pods. Pure.
import { isJsonObject, names, type KubeObject } from "@patchbay/api";

/** What may be asked for; what is absent stays as the manifests have it. */
export interface InstallSettings {
  /** Image of all services and agents. */
  readonly image?: string;
  readonly launcherImage?: string;
  /** The kubelets' `--root-dir`, absolute. */
  readonly kubeletRootDir?: string;
}

const LAUNCHER_FLAG = "--launcher-image=";
const PODS_DIR = "/var/lib/kubelet/pods";

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
  const { image, launcherImage, kubeletRootDir } = settings;
  const change = (text: string, member: string): string => {
    if (member === "image" && text === names.PATCHBAY_IMAGE) return image ?? text;
    if (member === "args" && text.startsWith(LAUNCHER_FLAG)) {
      return launcherImage === undefined ? text : `${LAUNCHER_FLAG}${launcherImage}`;
    }
    // Only where it is on the host: in the agents' pods it stays where it is.
    if (member === "path" && text === PODS_DIR) {
      return kubeletRootDir === undefined
        ? text
        : `${kubeletRootDir.replace(/(?<!\/)\/+$/, "")}/pods`;
    }
    return text;
  };
  return objects.map((object) => {
    const isWorkload = object.kind === "Deployment" || object.kind === "DaemonSet";
    // Texts take the place of texts.
    return isWorkload ? (mapTexts(object, change) as KubeObject) : object;
  });
}
