// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { markedIn } from "./added.ts";

const DIGEST = `sha256:${"a".repeat(64)}`;
const OTHER = `sha256:${"b".repeat(64)}`;

function listing(labels: string): string {
  return [
    "REF TYPE DIGEST SIZE PLATFORMS LABELS",
    `reg/a:1 application/vnd.oci.image.manifest.v1+json ${DIGEST} 1.2 MiB linux/amd64 ${labels} `,
    "",
  ].join("\n");
}

test.each([
  { name: "one with the mark", labels: `patchbay.io/added=${DIGEST}`, want: ["reg/a:1"] },
  { name: "among others", labels: `a=b,patchbay.io/added=${DIGEST},c=d`, want: ["reg/a:1"] },
  { name: "not one without labels", labels: "-", want: [] },
  { name: "not one that names something else now", labels: `patchbay.io/added=${OTHER}`, want: [] },
])("was added: $name", ({ labels, want }) => {
  expect(markedIn(listing(labels))).toEqual(want);
});
