"""What moto's S3 lacks: authorization, presigned URLs that expire, bucket policies' conditions."""
