// SPDX-License-Identifier: Apache-2.0
import { parseManifests, readManifests } from "@patchbay/manifests";
import { createFiles } from "@patchbay/os";
import { parseAllDocuments } from "yaml";
import { expect, test } from "vitest";
import { renderObjects } from "./cluster-manifests.ts";
import { buildTag, IMAGES, toReference, type ReleasedImages } from "./image-names.ts";

const RELEASED = Object.fromEntries(
  IMAGES.map((image) => [
    image,
    { tag: buildTag("r.example/p", image, "0.2.0"), digest: `sha256:${image}`, bytes: {} },
  ]),
) as ReleasedImages;

interface Rendered {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels: Readonly<Record<string, string>> };
}

test.each(["base", "net-agent-only"] as const)(
  "the file of %s has the objects of patchbay install, with images by digest",
  async (folder) => {
    const objects = parseManifests(await readManifests(createFiles(), folder));
    const text = renderObjects(objects, "0.2.0", RELEASED);
    const rendered = parseAllDocuments(text).map((each) => each.toJS() as Rendered);
    const nameOf = ({ kind = "", metadata }: { kind?: string; metadata: { name: string } }) =>
      `${kind} ${metadata.name}`;
    expect(rendered.map(nameOf).sort()).toEqual(objects.map(nameOf).sort());
    expect(rendered[0]?.kind).toBe("Namespace");
    const versions = rendered.map(({ metadata }) => metadata.labels["app.kubernetes.io/version"]);
    expect(new Set(versions)).toEqual(new Set(["0.2.0"]));
    const images = [...text.matchAll(/image[:=] ?(\S+)/g)].map(([, image]) => image);
    expect(images).toContain(toReference(RELEASED.patchbay));
    expect(images.filter((image) => image?.includes("@sha256:") !== true)).toEqual([]);
  },
);

test("only the definition of networks has a label by which clusters with Multus omit it", async () => {
  const objects = parseManifests(await readManifests(createFiles(), "net-agent-only"));
  const text = renderObjects(objects, "0.2.0", RELEASED);
  const labeled = parseAllDocuments(text)
    .map((each) => each.toJS() as Rendered)
    .filter(({ metadata }) => metadata.labels["app.kubernetes.io/component"] !== undefined)
    .map(({ kind, metadata }) => [kind, metadata.labels["app.kubernetes.io/component"]]);
  expect(labeled).toEqual([["CustomResourceDefinition", "network-definition"]]);
});
