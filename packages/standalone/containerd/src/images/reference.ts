// SPDX-License-Identifier: Apache-2.0
// Image references, short and full, as in every container engine. Pure. Source: distribution/reference.
import { AppError } from "@patchbay/base";

const DOMAIN = /^(localhost|[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+|[A-Za-z0-9.-]+:\d+)$/;
const PATH_PART = /^[a-z0-9]+((\.|_{1,2}|-+)[a-z0-9]+)*$/;
const TAG = /^\w[\w.-]{0,127}$/;
const DIGEST = /^sha256:[0-9a-f]{64}$/;
/** Maximum length without tag and digest. */
const NAME_MAX_LENGTH = 255;
const DEFAULT_DOMAIN = "docker.io";
const OFFICIAL_PATH = "library";

interface Parts {
  readonly name: string;
  readonly tag: string | undefined;
  readonly digest: string | undefined;
}

function splitReference(reference: string): Parts {
  const [head = "", ...digests] = reference.split("@");
  const colon = head.lastIndexOf(":");
  const hasTag = colon > head.lastIndexOf("/");
  return {
    name: hasTag ? head.slice(0, colon) : head,
    tag: hasTag ? head.slice(colon + 1) : undefined,
    digest: digests.length === 0 ? undefined : digests.join("@"),
  };
}

function fullName(name: string): readonly string[] {
  const parts = name.split("/");
  const [first = ""] = parts;
  if (parts.length > 1 && DOMAIN.test(first)) return parts;
  return parts.length === 1 ? [DEFAULT_DOMAIN, OFFICIAL_PATH, name] : [DEFAULT_DOMAIN, ...parts];
}

/**
 * Expands a reference: `alpine` becomes `docker.io/library/alpine:latest`.
 * @throws AppError with IMAGE_NAME_INVALID
 */
export function fullReference(reference: string): string {
  const { name, tag, digest } = splitReference(reference);
  const parts = fullName(name);
  const isValid =
    parts.slice(1).every((part) => PATH_PART.test(part)) &&
    parts.join("/").length <= NAME_MAX_LENGTH &&
    (tag === undefined || TAG.test(tag)) &&
    (digest === undefined || DIGEST.test(digest));
  if (!isValid) throw new AppError("IMAGE_NAME_INVALID", { image: reference });
  const suffix = digest === undefined ? `:${tag ?? "latest"}` : `@${digest}`;
  return `${parts.join("/")}${suffix}`;
}

/** Returns a full reference without its tag and digest. */
export function parseRepository(reference: string): string {
  return splitReference(reference).name;
}

/** Removes the parts that {@link fullReference} adds. */
export function shortReference(reference: string): string {
  return reference
    .replace(new RegExp(`^${DEFAULT_DOMAIN.replace(".", "\\.")}/(${OFFICIAL_PATH}/)?`), "")
    .replace(/:latest$/, "");
}
