// SPDX-License-Identifier: Apache-2.0
// What is done for the annotation as people write it?
import { parseNetworks } from "@patchbay/api/annotations";
import { expect, test } from "vitest";
import { planAttachmentActions } from "./attachment-actions.ts";
import { facts, printAction } from "../../testing/attachment-facts.ts";

const ANNOTATIONS: readonly { name: string; text: string; want: readonly string[] }[] = [
  { name: "one short name", text: "net1", want: ["add ns1/net1@net1"] },
  {
    name: "short names with interfaces",
    text: "net1@eth1,net321@eth2",
    want: ["add ns1/net1@eth1", "add ns1/net321@eth2"],
  },
  { name: "a namespace", text: "kube-system/net1", want: ["add kube-system/net1@net1"] },
  { name: "a dotted interface", text: "net1@eth0.100", want: ["add ns1/net1@eth0.100"] },
  { name: "two slashes", text: "a/b/c", want: ["error AnnotationInvalid@"] },
  { name: "capitals", text: "Net1", want: ["error AnnotationInvalid@"] },
  { name: "a trailing comma", text: "net1,", want: ["error AnnotationInvalid@"] },
  { name: "one object", text: '{"name":"net1"}', want: ["error AnnotationInvalid@"] },
  { name: "broken JSON", text: "[adsfasdf]", want: ["error AnnotationInvalid@"] },
  { name: "a null element", text: "[null]", want: ["error AnnotationInvalid@"] },
  { name: "an empty text", text: "", want: [] },
];

test.each(ANNOTATIONS)("plans for the annotation's text: $name", ({ text, want }) => {
  const input = { ...facts([]), networks: parseNetworks(text) };
  expect(planAttachmentActions(input).map(printAction)).toEqual(want);
});
