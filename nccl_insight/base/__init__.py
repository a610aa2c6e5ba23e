"""What every room uses: errors, units, versions, figures of bandwidth, Xids, files that are written, extensions."""
