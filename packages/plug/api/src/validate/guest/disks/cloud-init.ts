// SPDX-License-Identifier: Apache-2.0
// What a VM may say to cloud-init. Source: KubeVirt validateVolumes.
import { base64Length } from "../../../values/base64.ts";
import type { Cause } from "../../../kinds/kubernetes/meta.ts";
import type { Volume } from "../../../kinds/guest/volume.ts";
import { causeIf, forEachVolume, type Rule } from "../../rule.ts";

/** Bytes of user data, and of network data, that an object may hold itself. Source: KubeVirt cloudInitUserMaxLen, cloudInitNetworkMaxLen. */
const INLINE_MAX_BYTES = 2048;
const KINDS = ["cloudInitNoCloud", "cloudInitConfigDrive"] as const;

type CloudInit = NonNullable<Volume[(typeof KINDS)[number]]>;

/** One of the two things that cloud-init is told, in the forms that it may have. */
interface Told {
  readonly key: "userData" | "networkData";
  readonly text: string;
  readonly base64: string;
  readonly secret: string;
}

function toldBy(given: CloudInit): readonly [user: Told, network: Told] {
  const { userData, userDataBase64, secretRef } = given;
  const { networkData, networkDataBase64, networkDataSecretRef } = given;
  return [
    {
      key: "userData",
      text: userData ?? "",
      base64: userDataBase64 ?? "",
      secret: secretRef?.name ?? "",
    },
    {
      key: "networkData",
      text: networkData ?? "",
      base64: networkDataBase64 ?? "",
      secret: networkDataSecretRef?.name ?? "",
    },
  ];
}

function formsOf({ text, base64, secret }: Told): number {
  return [text, base64, secret].filter((form) => form !== "").length;
}

/** KubeVirt's words for one thing in several forms. */
const ONE_FORM = {
  userData: "must have only one userdatasource set.",
  networkData: "must have only one networkdata source set.",
} as const;

const SECRETS = { userData: "UserDataSecretRef", networkData: "NetworkDataSecretRef" } as const;

/** Bytes of a text in UTF-8; no more than 2048 matter, so that a longer text need not be counted out. */
function bytesOf(text: string): number {
  if (text.length > INLINE_MAX_BYTES) return text.length;
  // By code points, which are what UTF-8 encodes.
  return Array.from(text, (point) => utf8Length(point.codePointAt(0) ?? 0)).reduce(
    (sum, bytes) => sum + bytes,
    0,
  );
}

/** Source: RFC 3629 section 3. */
function utf8Length(codePoint: number): number {
  if (codePoint < 0x80) return 1;
  if (codePoint < 0x800) return 2;
  return codePoint < 0x10000 ? 3 : 4;
}

function toldCauses(told: Told, path: string): readonly Cause[] {
  const { key, text, base64 } = told;
  const decoded = base64Length(base64);
  const bytes = Math.max(bytesOf(text), decoded ?? 0);
  return [
    ...causeIf(decoded === undefined, {
      reason: "FieldValueInvalid",
      field: `${path}.${key}Base64`,
      message: `${path}.${key}Base64 is not a valid base64 value.`,
    }),
    ...causeIf(formsOf(told) > 1, {
      reason: "FieldValueInvalid",
      field: path,
      message: `${path} ${ONE_FORM[key]}`,
    }),
    ...causeIf(bytes > INLINE_MAX_BYTES, {
      reason: "FieldValueInvalid",
      field: path,
      message: `${path} ${key.toLowerCase()} exceeds ${String(INLINE_MAX_BYTES)} byte limit. Should use ${SECRETS[key]} for larger data.`,
    }),
  ];
}

const dataIsValid = forEachVolume((volume, volumePath) =>
  KINDS.flatMap((kind): readonly Cause[] => {
    const given = volume[kind];
    if (given === undefined) return [];
    const path = `${volumePath}.${kind}`;
    const told = toldBy(given);
    return [
      ...told.flatMap((each) => toldCauses(each, path)),
      ...causeIf(
        told.every((each) => formsOf(each) === 0),
        {
          reason: "FieldValueInvalid",
          field: path,
          message: `${path} must have at least one userdatasource or one networkdatasource set.`,
        },
      ),
    ];
  }),
);

/** Judges cloud-init's data. */
export const CLOUD_INIT_RULES: readonly Rule[] = [dataIsValid];
