// SPDX-License-Identifier: Apache-2.0
import { makeUserData } from "@patchbay/core/new-vm";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { addKeys, findLogin, readPublicKeys, userDataProblem } from "./user-data.ts";

const KEY = "ssh-ed25519 AAAAC3 me@here";
const OTHER = "ecdsa-sha2-nistp256 AAAAE2 you";

describe("readPublicKeys", () => {
  test("returns all lines except comments", () => {
    expect(readPublicKeys(`# mine\n${KEY}\n\n${OTHER}\n`, "f")).toEqual([KEY, OTHER]);
  });

  test.each([
    { text: "-----BEGIN OPENSSH PRIVATE KEY-----\n", want: "f is a private key" },
    { text: "", want: "f holds no public keys" },
    { text: `${KEY}\nhello`, want: "f holds no public keys" },
  ])("rejects the file: $want", ({ text, want }) => {
    expect(() => readPublicKeys(text, "f")).toThrow(want);
  });
});

describe("addKeys", () => {
  test("appends keys and preserves comments", () => {
    const text = `#cloud-config\n# hello\nssh_authorized_keys: [${OTHER}]\npackages: [git] # tool\n`;
    const want = `#cloud-config\n# hello\nssh_authorized_keys: [ ${OTHER}, ${KEY} ]\npackages: [ git ] # tool\n`;
    expect(addKeys(text, [KEY])).toBe(want);
  });

  test.each(["#cloud-config\n", "#cloud-config\n# nothing\n"])(
    "adds a list of keys to %j",
    (text) => {
      expect(parse(addKeys(text, [KEY]))).toEqual({ ssh_authorized_keys: [KEY] });
    },
  );

  test("returns the user data unchanged without keys", () => {
    expect(addKeys("#!/bin/sh\n", [])).toBe("#!/bin/sh\n");
  });

  test.each([
    { text: "#!/bin/sh\n", want: "does not begin with #cloud-config" },
    { text: "#cloud-config\na: [", want: "cloud-init cannot read the user data" },
    { text: "#cloud-config\nssh_authorized_keys: me\n", want: "ssh_authorized_keys is not a list" },
    { text: "#cloud-config\n- a\n", want: "cloud-init cannot read the user data" },
  ])("$text: $want", ({ text, want }) => {
    expect(() => addKeys(text, [KEY])).toThrow(want);
  });
});

test.each([
  { text: "#cloud-config\npassword: fedora\n", want: { password: "fedora" } },
  {
    text: "#cloud-config\nusers: [default, {name: a}, {name: b, plain_text_passwd: c}]\n",
    want: { user: "b", password: "c" },
  },
  { text: "#cloud-config\nusers: [default]\n", want: undefined },
  { text: "#cloud-config\nuser: a\n", want: undefined },
  { text: "#cloud-config\npassword: 12\n", want: undefined },
  { text: "#cloud-config\n- password\n", want: undefined },
  { text: "#cloud-config\njust words\n", want: undefined },
  { text: "#cloud-config\na: [\n", want: undefined },
  { text: "#!/bin/sh\npassword: a\n", want: undefined },
  { text: "", want: undefined },
])("the login of $text is $want", ({ text, want }) => {
  expect(findLogin(text)).toEqual(want);
});

test("the login of generated user data is found", () => {
  const login = { user: "admin", password: "1234: #x" };
  expect(findLogin(makeUserData(login, [KEY]))).toEqual(login);
});

describe("userDataProblem", () => {
  test.each([
    "#cloud-config\na: 1\n",
    "#!/bin/sh\n",
    "## template: jinja\n#cloud-config\n",
    "Content-Type: multipart/mixed; boundary=x\nMIME-Version: 1.0\n",
    "MIME-Version: 1.0\n",
    "\n  #Cloud-Config\n",
    "#include\nhttps://example.com\n",
    "",
  ])("accepts %j", (text) => {
    expect(userDataProblem(text)).toBeUndefined();
  });

  test.each(["users: []\n", "# cloud-config\n", "echo hello\n"])("rejects %j", (text) => {
    expect(userDataProblem(text)).toMatch(/^cloud-init ignores user data that begin with "/);
  });
});
