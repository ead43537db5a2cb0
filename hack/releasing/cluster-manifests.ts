// SPDX-License-Identifier: Apache-2.0
// Manifests of a cluster as one file each, with the images of the release by digest.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { names } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { parseManifests, readManifests, withSettings } from "@patchbay/manifests";
import { createFiles } from "@patchbay/os";
import { stringify } from "yaml";
import { toReference, withReleasedNames, type ReleasedImages } from "./image-names.ts";
import { readImages } from "./images.ts";
import type { Release } from "./release.ts";

const VERSION_LABEL = "app.kubernetes.io/version";
/** Label of CRDs, with which kubectl can omit them: deleting a CRD deletes its objects. */
const COMPONENT_LABEL = "app.kubernetes.io/component";
/** Kinds in front, because others need them. kubectl applies a file in its order. */
const FIRST: readonly string[] = ["Namespace", "CustomResourceDefinition", "PriorityClass"];
/** Quotes texts that kubectl 1.20 would parse as booleans. */
const STYLE = { lineWidth: 100, aliasDuplicateObjects: false, version: "1.1" } as const;

function componentOf({ kind, metadata }: KubeObject): string | undefined {
  if (kind !== "CustomResourceDefinition") return undefined;
  return metadata.name.endsWith(`.${names.NAD_GROUP}`) ? "network-definition" : "definitions";
}

function withLabels(object: KubeObject, version: string): KubeObject {
  const component = componentOf(object);
  const labels = {
    ...object.metadata.labels,
    [VERSION_LABEL]: version,
    ...(component !== undefined && { [COMPONENT_LABEL]: component }),
  };
  return { ...object, metadata: { ...object.metadata, labels } };
}

function rank({ kind }: KubeObject): number {
  const index = FIRST.indexOf(kind);
  return index === -1 ? FIRST.length : index;
}

/** Renders the objects as one text. The order within a kind is unchanged. */
export function renderObjects(
  objects: readonly KubeObject[],
  version: string,
  images: ReleasedImages,
): string {
  const settings = {
    image: toReference(images.patchbay),
    launcherImage: toReference(images["virt-launcher"]),
    sidecarShimImage: toReference(images["sidecar-shim"]),
  };
  const header = `# SPDX-License-Identifier: Apache-2.0\n# Patchbay ${version}. docs/install.md describes the installation and the removal.\n`;
  const texts = withSettings(objects, settings)
    .toSorted((left, right) => rank(left) - rank(right))
    .map((object) => stringify(withLabels(object, version), STYLE));
  return withReleasedNames(header + texts.map((text) => `---\n${text}`).join(""), images);
}

/** Makes `patchbay.yaml` and `net-agent.yaml`. */
export async function makeManifests(release: Release): Promise<void> {
  const images = readImages(release);
  for (const [folder, file] of [
    ["base", "patchbay.yaml"],
    ["net-agent-only", "net-agent.yaml"],
  ] as const) {
    const objects = parseManifests(await readManifests(createFiles(), folder));
    writeFileSync(join(release.output, file), renderObjects(objects, release.version, images));
  }
}
