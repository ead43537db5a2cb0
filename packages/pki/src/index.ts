// SPDX-License-Identifier: Apache-2.0
// The public door of pki.
export { createAuthority, loadAuthority, type Authority } from "./authority.ts";
export {
  endOfCertificate,
  isIssuedFor,
  isKeyOf,
  issueCertificate,
  namesAddress,
  splitBundle,
  subjectOfCertificate,
} from "./certificate.ts";
export type {
  CertificateRequest,
  CertificateUsage,
  IssuedCertificate,
} from "./certificate-request.ts";
export { createSigningKey } from "./encoding.ts";
export { kubeconfigText } from "./kubeconfig.ts";
