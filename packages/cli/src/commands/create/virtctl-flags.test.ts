// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { findBootVolume, withBootOrder, readMatcher, readVolumes } from "./virtctl-flags.ts";

const NONE = { images: [], claims: [] };

describe("readVolumes", () => {
  test("returns images first, then claims, each with a name", () => {
    const images = ["src:registry:5000/os/debian:12", "src:b,name:other,bootorder:2"];
    const claims = ["bootorder:1,src:gold", "src:data,name:d"];
    expect(readVolumes("web", { images, claims })).toEqual([
      { name: "web-containerdisk-0", source: { image: "registry:5000/os/debian:12" } },
      { name: "other", source: { image: "b" }, bootOrder: 2 },
      { name: "gold", source: { claim: "gold" }, bootOrder: 1 },
      { name: "d", source: { claim: "data" } },
    ]);
  });

  test.each([
    { text: "name:a", reason: "src must be specified" },
    { text: "gold", reason: '"gold" is none of src:…, name:…, bootorder:…' },
    { text: "src:", reason: '"src:" is none of src:…, name:…, bootorder:…' },
    { text: "src:a,size:1Gi", reason: '"size:1Gi" is none of src:…, name:…, bootorder:…' },
    { text: "src:a,src:b", reason: "src is set twice" },
    { text: "src:a,bootorder:0", reason: "bootorder must be a number of at least 1, not 0" },
    {
      text: "src:images/gold",
      reason: "images/gold names a namespace; the claim must be in the VM's namespace",
    },
  ])("rejects $text", ({ text, reason }) => {
    expect(() => readVolumes("web", { ...NONE, claims: [text] })).toThrow(
      `--volume-pvc: ${reason}`,
    );
  });

  const [a, b] = [
    { name: "a", source: { image: "a" } },
    { name: "b", source: { claim: "b" } },
  ];

  test.each([
    { volumes: [a, b], orders: [1, undefined], boots: "a" },
    { volumes: [a, { ...b, bootOrder: 3 }], orders: [undefined, 3], boots: "b" },
    {
      volumes: [
        { ...a, bootOrder: 2 },
        { ...b, bootOrder: 1 },
      ],
      orders: [2, 1],
      boots: "b",
    },
  ])("$volumes: boots from $boots", ({ volumes, orders, boots }) => {
    const inOrder = withBootOrder(volumes);
    expect(inOrder.map(({ bootOrder }) => bootOrder)).toEqual(orders);
    expect(findBootVolume(inOrder)?.name).toBe(boots);
  });

  test("rejects two volumes with the same boot order", () => {
    const volumes = [a, b].map((volume) => ({ ...volume, bootOrder: 1 }));
    expect(() => withBootOrder(volumes)).toThrow("bootorder 1 was specified multiple times");
  });
});

describe("readMatcher", () => {
  const claim = { name: "root", source: { claim: "gold" } };
  const image = { name: "root", source: { image: "debian" } };
  const noFlags = {
    part: "instancetype",
    text: undefined,
    isInferred: false,
    boot: image,
  } as const;

  test.each([
    { flag: noFlags, want: undefined },
    { flag: { ...noFlags, text: "small" }, want: { name: "small" } },
    {
      flag: { ...noFlags, text: "virtualmachineinstancetype/small" },
      want: { name: "small", kind: "virtualmachineinstancetype" },
    },
    {
      flag: { ...noFlags, text: "virtualmachineclusterinstancetype/small" },
      want: { name: "small", kind: "virtualmachineclusterinstancetype" },
    },
    {
      flag: { ...noFlags, isInferred: true, boot: claim },
      want: { inferFromVolume: "root" },
    },
  ])("parses $flag.text", ({ flag, want }) => {
    expect(readMatcher(flag)).toEqual(want);
  });

  test.each(["", "a/", "virtualmachinepreference/linux", "a/virtualmachineinstancetype/b"])(
    "rejects %j",
    (text) => {
      expect(() => readMatcher({ ...noFlags, text })).toThrow("--instancetype: it must be NAME");
    },
  );

  test("rejects inference from an image, which has no labels", () => {
    expect(() => readMatcher({ ...noFlags, isInferred: true })).toThrow(
      "--infer-instancetype: the boot disk must be a claim",
    );
  });
});
